package explore

import (
	"fmt"
	"os"
	"testing"

	"github.com/zklocks/zklocks/internal/test/leaks"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

func TestMain(m *testing.M) {
	var o order
	if realzk.Ordered(processEnv, &o) {
		if err := o.obey(realzk.Lines()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leaks.Main(m)
}
