package threads

// resolve folds the end of a request.
func (s *state) resolve(RequestResolved) {}
