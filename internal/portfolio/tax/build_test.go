package tax

import "testing"

// TestPartsMakeOneBook: the book does not depend on how many processors there are.
func TestPartsMakeOneBook(t *testing.T) {
	rules, txs, _ := traffic(2*enoughRows+100, 50, HIFO)
	in, err := take(rules, txs, DateOf(2024, 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	one, err := in.build(1)
	if err != nil {
		t.Fatal(err)
	}
	two, err := in.build(2)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(in.share(2)); n != 2 {
		t.Fatalf("%d parts", n)
	}
	if tell(one) != tell(two) {
		t.Error("two parts make another book than one")
	}
}
