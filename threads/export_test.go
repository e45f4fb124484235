package threads

// OfferedNames returns the names under which models know tools.
func OfferedNames(tools []DynamicTool, taken map[string]Tool) []string {
	specs, _ := offered(tools, taken)
	names := make([]string, len(specs))
	for i, s := range specs {
		names[i] = s.Name
	}
	return names
}
