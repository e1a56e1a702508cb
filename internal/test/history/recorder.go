package history

import "sync"

// Recorder records holds from many goroutines.
type Recorder struct {
	who string

	mu    sync.Mutex
	holds []Hold
}

// NewRecorder records for who, the owner of all holds that do not name one.
func NewRecorder(who string) *Recorder { return &Recorder{who: who} }

// Span is a hold that has begun.
type Span struct {
	rec   *Recorder
	index int
	once  sync.Once
}

// Begin records a hold. It is called after the acquiring call has returned. Acquired is set to now
// if it is 0.
func (r *Recorder) Begin(h Hold) *Span {
	if h.Acquired == 0 {
		h.Acquired = Now()
	}
	if h.Who == "" {
		h.Who = r.who
	}
	h.Ended = 0
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &Span{rec: r, index: len(r.holds)}
	r.holds = append(r.holds, h)
	return s
}

// End records that the hold is certain no longer: call it before the release, and when loss is
// observed. The first call counts.
func (s *Span) End() { s.EndAt(Now()) }

// EndAt is End for a caller that detects the end later: at is the last instant at which the hold
// reported itself held.
func (s *Span) EndAt(instant int64) {
	s.once.Do(func() {
		r := s.rec
		r.mu.Lock()
		defer r.mu.Unlock()
		r.holds[s.index].Ended = instant
	})
}

// Holds returns a copy of what has been recorded.
func (r *Recorder) Holds() []Hold {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Hold(nil), r.holds...)
}
