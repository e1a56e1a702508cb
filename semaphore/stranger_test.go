package semaphore

import "testing"

func TestStrangersAreKnown(t *testing.T) {
	const id = "0f8fad5b-d9cb-469f-a165-70867728950e"
	for _, children := range [][]string{
		{"locks", "leases"},
		{"queue", "leases", "locks"},
		{"_c_" + id + "-lease-0000000003"},
		{"queue", "076e6e61c0cde965b0859f41aaeb74ff"},
	} {
		if stranger(children) == "" {
			t.Errorf("%q: nobody's", children)
		}
	}
	for _, children := range [][]string{
		nil, {"queue"}, {"leases"}, {"locks", "queue"}, {"README", "lease-0000000003"},
		{"_c_" + id + "-permit-0000000003", "_c_" + id + "-lock-0000000003"},
		{"076e6e61c0cde965b0859f41aaeb74ff__lock__0000000001"}, {"076e6e61"}, {"the number of nodes that we know"},
	} {
		if whose := stranger(children); whose != "" {
			t.Errorf("%q: %s", children, whose)
		}
	}
}
