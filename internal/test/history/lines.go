package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// line is one event of one recorder.
type line struct {
	ID    int   `json:"id"`
	Begin *Hold `json:"begin,omitempty"`
	End   int64 `json:"end,omitempty"`
}

func (r *Recorder) write(l line) {
	if r.lines == nil || r.err != nil {
		return
	}
	text, err := json.Marshal(l)
	if err == nil {
		_, err = r.lines.Write(append(text, '\n')) // in one piece
	}
	r.err = err
}

// Read reads the lines of one recorder. Holds without an end in them end at died, an instant before
// the recording process was killed; 0: they go on to the end of the record. A last line that was
// cut short by the kill is left out, because its caller never went on.
func Read(from io.Reader, died int64) ([]Hold, error) {
	var holds []Hold
	in := bufio.NewReader(from)
	for n := 1; ; n++ {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, fmt.Errorf("history: line %d: %w", n, err)
		}
		switch {
		case l.Begin != nil && l.ID == len(holds):
			holds = append(holds, *l.Begin)
		case l.Begin == nil && l.ID >= 0 && l.ID < len(holds) && l.End != 0:
			holds[l.ID].Ended = l.End
		default:
			return nil, fmt.Errorf("history: line %d: out of order: the lines of one recorder at a time", n)
		}
	}
	for i := range holds {
		if holds[i].Ended == 0 && died != 0 {
			holds[i].Ended = max(died, holds[i].Acquired)
		}
	}
	return holds, nil
}
