package differ

import (
	"testing"

	"github.com/zklocks/zklocks/internal/test/realzk"
)

func TestMain(m *testing.M) { realzk.Main(m) }
