package hammer

import (
	"path/filepath"
	"reflect"
	"testing"

	"github.com/zklocks/zklocks/internal/test/history"
)

// The record of a child reaches its parent.
func TestARecordIsReadAsItWasWritten(t *testing.T) {
	l := lock{"/a", 5}
	s := &storm{round: round{Record: filepath.Join(t.TempDir(), "record")}, record: record{
		Holds:    []history.Hold{{Path: "/a", Kind: history.Exclusive, Token: 5, Who: "p00.01@7", Called: 1, Acquired: 2, Ended: 3}},
		Lost:     []lock{l},
		Nodes:    map[string]int64{"/a/read-0000000001": 5},
		Suspects: []suspect{{Lock: l, Who: "p00.01@7", At: 2, Later: 6}},
	}}
	if err := s.save(); err != nil {
		t.Fatal(err)
	}
	var got record
	if err := got.load(s.Record); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, s.record) {
		t.Errorf("written %+v, read %+v", s.record, got)
	}
}
