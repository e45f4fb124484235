package berth_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"harbour.example/api/internal/berth"
	"harbour.example/api/internal/store"
)

// BenchmarkAssign books and cancels in a harbour of many berths, of which the
// first half is taken for the whole year.
func BenchmarkAssign(b *testing.B) {
	for _, berths := range []int{8, 64, 400} {
		b.Run(fmt.Sprintf("berths=%d", berths), func(b *testing.B) {
			st := store.NewMemory()
			st.PutShip(osprey)
			for n := range berths {
				name := fmt.Sprintf("B-%03d", n)
				st.PutBerth(berth.Berth{Name: name, LengthM: 150 + n, DraughtM: 9})
				if n < berths/2 {
					st.Insert(context.Background(), berth.Booking{ID: name, Berth: name, Window: berth.Window{From: noon, To: noon.AddDate(1, 0, 0)}})
				}
			}
			a := berth.NewAssigner(st, time.Minute)
			for b.Loop() {
				got, err := a.Assign(context.Background(), osprey.IMO, "agent-1", day(1))
				if err != nil {
					b.Fatal(err)
				}
				if err := a.Cancel(context.Background(), got.ID); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
