package zktest_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/zktest"
)

// An ensemble grows from three to five members, and shrinks to the two new members and one old
// member. The data and /zookeeper/config are everywhere, and the members elect as they should.
func TestMembersJoinAndLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t, zktest.WithMembers(3))
		first := s.Host("a").Connect(t, 10*time.Second)
		hold, err := rwlock.New(first, "/l").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		config := func(lines int) {
			t.Helper()
			data, _, err := first.Client().Get("/zookeeper/config")
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Count(string(data), "server."); got != lines {
				t.Errorf("%d members in %q, want %d", got, data, lines)
			}
		}
		config(3)
		four, five := s.AddMember(), s.AddMember()
		config(5)

		old := s.Members()
		old[0].Remove()
		old[1].Remove()
		config(3)
		old[0].Kill()
		old[1].Kill()
		if got, want := s.Addrs(), []string{old[2].Addr(), four.Addr(), five.Addr()}; strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("Addrs returns %q, want %q", got, want)
		}

		// A new member leads, and has the lock's node.
		s.Elect(five)
		there := s.Host("b").Connect(t, 10*time.Second)
		if _, err := rwlock.New(there, "/l").TryLock(t.Context()); err == nil {
			t.Error("a lock that is held was granted")
		}
		if err := hold.Release(t.Context()); err != nil {
			t.Error(err)
		}

		// A leader that is removed follows the next, and serves its clients, until it is killed.
		six := s.AddMember()
		s.Elect(old[2])
		old[2].Remove()
		time.Sleep(time.Second)
		if l := s.Leader(); l == nil || l == old[2] {
			t.Errorf("after its leader was removed the ensemble is led by %v", l)
		}
		only := s.Host("c")
		for _, m := range s.Members() {
			only.To(m).Partition()
		}
		onTheOld, err := zklocks.Connect(t.Context(), []string{old[2].Addr()}, 10*time.Second, zklocks.WithDialer(only.Dial))
		if err != nil {
			t.Fatal(err)
		}
		defer onTheOld.Close()
		if queue, err := rwlock.New(onTheOld, "/l").Queue(t.Context()); err != nil || len(queue) != 0 {
			t.Errorf("a removed member lists %v, %v", queue, err)
		}
		old[2].Kill()
		six.Remove()
		six.Kill()
		time.Sleep(time.Second)
		s.AddMember()

		// Two of three are a majority; one is none.
		five.Kill()
		again, err := rwlock.New(there, "/l").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Release(t.Context()); err != nil {
			t.Error(err)
		}
		four.Kill()
		time.Sleep(time.Minute)
		if s.Leader() != nil {
			t.Error("one of three members leads")
		}
		old[0].Restart()
		time.Sleep(time.Minute)
		if s.Leader() != nil {
			t.Error("a member that was removed has voted")
		}
		four.Restart()
	})
}
