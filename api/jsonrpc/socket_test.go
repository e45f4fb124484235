package jsonrpc

import (
	"bytes"
	"fmt"
	"net"
	"testing"
)

// A recorder is a connection that keeps what is written.
type recorder struct {
	net.Conn
	sizes []int
	all   bytes.Buffer
}

func (r *recorder) Write(p []byte) (int, error) {
	r.sizes = append(r.sizes, len(p))
	return r.all.Write(p)
}

func TestSocketGathersSmallWritesAndSplitsLargeOnes(t *testing.T) {
	small, large := bytes.Repeat([]byte("s"), 1000), bytes.Repeat([]byte("l"), 3*pieceBytes+1)
	var want bytes.Buffer
	r, told := &recorder{}, 0
	s := &socket{Conn: r}
	s.cork(func() { told++ }, true)
	for range 100 {
		want.Write(small)
		if _, err := s.Write(small); err != nil {
			t.Fatal(err)
		}
	}
	want.Write(large)
	if _, err := s.Write(large); err != nil {
		t.Fatal(err)
	}
	if err := s.uncork(); err != nil {
		t.Fatal(err)
	}
	want.Write(small)
	if _, err := s.Write(small); err != nil { // at once
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(r.sizes), fmt.Sprint([]int{65000, 35000, pieceBytes, pieceBytes, pieceBytes, 1, 1000}); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !bytes.Equal(r.all.Bytes(), want.Bytes()) || told != 6 {
		t.Errorf("%d bytes of %d, %d pieces", r.all.Len(), want.Len(), told)
	}
}
