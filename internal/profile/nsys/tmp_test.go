package nsys
import ("testing";"os";"github.com/sixty-dev/sixty/internal/profile")
func TestTmp(t *testing.T){ f,_:=os.Open("/tmp/prof/big.sqlite"); i,_:=f.Stat(); tl,err:=Read(t.Context(),f,i.Size(),"x",0); if err!=nil{t.Fatal(err)}; tl.Consume=true; profile.Analyze(tl)}
