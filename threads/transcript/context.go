package transcript

import "fmt"

// A Form says how a retained item is rendered in the context of an epoch.
type Form string

// The forms, from most to least. A later boundary never renders an item in a
// richer form than an earlier one.
const (
	FormWhole   Form = "whole"   // as it is
	FormClipped Form = "clipped" // head and tail with a marker between
	FormStub    Form = "stub"    // a marker only
)

// A Kept is one retained item of a boundary. Text replaces the item's text
// unless the form is whole; it is stored so that the context of an old epoch
// stays byte-identical when the code that clips changes.
type Kept struct {
	ItemID ItemID `json:"itemId"`
	Form   Form   `json:"form"`
	Text   string `json:"text,omitempty"`
}

// A Boundary opens an epoch. The context of the epoch is its checkpoint, its
// kept items in order, and then every item after the first Covered ones.
type Boundary struct {
	Epoch        int          `json:"epoch"` // 1 for the first boundary
	CompactionID CompactionID `json:"compactionId"`
	Covered      int          `json:"covered"`    // how many items of the transcript the boundary accounts for
	Checkpoint   *Item        `json:"checkpoint"` // body Checkpoint; nil if the provider disclosed none
	Kept         []Kept       `json:"kept"`
	// Undoes is the compaction whose boundary this one takes back: the epoch holds
	// what the epoch before that boundary held, and everything that came since.
	Undoes CompactionID `json:"undoes,omitempty"`
}

// A Prune shows retained items of an epoch's context in a smaller form, without
// opening a new epoch. Later prunes of an epoch come after earlier ones.
type Prune struct {
	Epoch        int          `json:"epoch"`
	CompactionID CompactionID `json:"compactionId"`
	Kept         []Kept       `json:"kept"` // only what changes
}

// An Entry is one item of a context, in the form it is rendered in. Item.Body
// is already in that form.
type Entry struct {
	Item Item
	Form Form
}

// A Transcript is everything that was said in a thread, in order.
type Transcript struct {
	Turns      []Turn
	Items      []Item
	Boundaries []Boundary // Boundaries[i].Epoch == i+1
	Prunes     []Prune    // in order; of any epoch
}

// Epoch returns the number of the current epoch: 0 until the first boundary.
func (t *Transcript) Epoch() int { return len(t.Boundaries) }

// Context returns the context of an epoch: for a past one as it was when the
// next boundary was drawn, for the current one as it is now. Items that models do
// not see (InContext) are part of none.
func (t *Transcript) Context(epoch int) ([]Entry, error) {
	if epoch < 0 || epoch > len(t.Boundaries) {
		return nil, fmt.Errorf("epoch %d does not exist: the thread has epochs 0 to %d", epoch, len(t.Boundaries))
	}
	begin, end := 0, len(t.Items)
	if epoch > 0 {
		begin = t.Boundaries[epoch-1].Covered
	}
	if epoch < len(t.Boundaries) {
		end = t.Boundaries[epoch].Covered
	}
	if begin < 0 || begin > end || end > len(t.Items) {
		return nil, fmt.Errorf("epoch %d goes from item %d to item %d of %d", epoch, begin, end, len(t.Items))
	}
	if epoch == 0 {
		return t.pruned(0, appendWhole(nil, t.Items[:end])), nil
	}
	b := t.Boundaries[epoch-1]
	entries := make([]Entry, 0, 1+len(b.Kept)+end-b.Covered)
	if b.Checkpoint != nil {
		entries = append(entries, Entry{*b.Checkpoint, FormWhole})
	}
	if len(b.Kept) > 0 {
		byID := make(map[ItemID]*Item, b.Covered)
		for i := range t.Items[:b.Covered] {
			byID[t.Items[i].ID] = &t.Items[i]
		}
		for _, k := range b.Kept {
			it, ok := byID[k.ItemID]
			if !ok {
				return nil, fmt.Errorf("boundary %d keeps item %s, which does not exist before it", b.Epoch, k.ItemID)
			}
			entries = append(entries, Entry{Render(*it, k), k.Form})
		}
	}
	return t.pruned(epoch, appendWhole(entries, t.Items[b.Covered:end])), nil
}

// pruned shows the entries of an epoch as its prunes have them; entries is changed.
// Of an item that several prunes name the last form counts. What a prune names and
// the epoch does not hold any more is nothing to it.
func (t *Transcript) pruned(epoch int, entries []Entry) []Entry {
	forms := map[ItemID]Kept{}
	for _, p := range t.Prunes {
		if p.Epoch == epoch {
			for _, k := range p.Kept {
				forms[k.ItemID] = k
			}
		}
	}
	if len(forms) == 0 {
		return entries
	}
	for i, e := range entries {
		if k, ok := forms[e.Item.ID]; ok && k.Form != FormWhole {
			entries[i] = Entry{Render(e.Item, k), k.Form}
		}
	}
	return entries
}

func appendWhole(entries []Entry, items []Item) []Entry {
	for _, it := range items {
		if InContext(it) {
			entries = append(entries, Entry{it, FormWhole})
		}
	}
	return entries
}

// InContext reports whether an item is sent to models: all but the markers of
// the timeline, what a provider's own session was told of the pins, texts that are
// empty (as they are while they are streamed) and work that is still in progress.
func InContext(it Item) bool {
	switch b := it.Body.(type) {
	case ContextCompaction:
		return false
	case Notice:
		return b.Source != SourcePins
	case AgentMessage:
		return b.Text != ""
	case Reasoning:
		return b.Text != ""
	case Command:
		return b.Status != "inProgress"
	case FileChange:
		return b.Status != "inProgress"
	default:
		return true
	}
}

// Render returns the item as k says: whole, or with its text replaced. A tool
// call keeps its name and id and gets the text as the argument "clipped", so
// that it stays a valid call.
func Render(it Item, k Kept) Item {
	if k.Form != FormWhole {
		it.Body = replaceText(it.Body, k.Text)
	}
	return it
}
