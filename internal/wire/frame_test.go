package wire

import "testing"

// Only an answer from the leader, with a quorum, proves that the session is alive.
func TestWhatProvesTheSession(t *testing.T) {
	const noAuth, invalidACL, sessionExpired, sessionMoved, notReadOnly, lost, timedOut, noSession = -102, -114, -112, -118, -119, -4, -7, -12
	all := []int32{0, codeNoNode, noAuth, codeBadVersion, codeNoChildren, codeNodeExists, codeNotEmpty, sessionExpired, invalidACL,
		codeAuthFailed, sessionMoved, notReadOnly, codeThrottled, lost, timedOut, noSession, codeDemandsSASL}
	for op, proving := range map[int32][]int32{
		opMulti:   {0}, // a refusal is in its results
		opCreate:  {0, codeNoNode, codeNodeExists, codeNoChildren, codeBadVersion, codeNotEmpty},
		opDelete:  {0, codeNoNode, codeNodeExists, codeNoChildren, codeBadVersion, codeNotEmpty},
		opSetData: {0, codeNoNode, codeNodeExists, codeNoChildren, codeBadVersion, codeNotEmpty},
		// Any server answers these by itself.
		opExists: {}, opGetData: {}, opGetChildren2: {}, opPing: {}, opSetAuth: {}, opSetWatches: {},
		opRemoveWatches: {}, opSync: {},
	} {
		want := make(map[int32]bool)
		for _, code := range proving {
			want[code] = true
		}
		for _, code := range all {
			if got := proves(op, code); got != want[code] {
				t.Errorf("operation %d, code %d: %v, want %v", op, code, got, want[code])
			}
		}
	}
}

const opSync = 9
