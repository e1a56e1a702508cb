package kerberos

import (
	"testing"

	"github.com/zklocks/zklocks/internal/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }
