package queue

import (
	"reflect"
	"testing"

	"github.com/go-zookeeper/zk"
)

// A transaction may be sent after the call has returned because ctx is canceled. The caller may
// overwrite the operations by then.
func TestATransactionHasItsOperationsForItself(t *testing.T) {
	theirs := func() []any {
		return []any{
			&zk.CreateRequest{Path: "/made", Data: []byte("data"), Acl: zk.DigestACL(zk.PermAll, "user", "password"), Flags: zk.FlagEphemeral},
			&zk.SetDataRequest{Path: "/set", Data: []byte("data"), Version: 1},
			&zk.DeleteRequest{Path: "/gone", Version: 2},
			&zk.CheckVersionRequest{Path: "/there", Version: 3},
		}
	}
	ops := theirs()
	own, err := owned(ops)
	if err != nil {
		t.Fatal(err)
	}
	made, set := ops[0].(*zk.CreateRequest), ops[1].(*zk.SetDataRequest)
	clear(made.Data)
	clear(made.Acl)
	clear(set.Data)
	*made, *set = zk.CreateRequest{}, zk.SetDataRequest{}
	*ops[2].(*zk.DeleteRequest), *ops[3].(*zk.CheckVersionRequest) = zk.DeleteRequest{}, zk.CheckVersionRequest{}
	if want := theirs(); !reflect.DeepEqual(own, want) {
		t.Errorf("%+v, want %+v", own, want)
	}
}
