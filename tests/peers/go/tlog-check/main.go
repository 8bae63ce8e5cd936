// A reader of logs made of golang.org/x/mod/sumdb and github.com/transparency-dev/formats.
//
//	tlog-check note NOTE VKEY...             every key has to have signed; prints the origin, the size and the root
//	tlog-check tiles PLACE NOTE VKEY INDEX... prints the inclusion proof of each entry and the consistency proof of each size,
//	                                          made of tiles that are checked against the checkpoint
//	tlog-check proof FILE ENTRY VKEY          a tlog-proof of the entry in a file
//	tlog-check subtree VKEY ORIGIN START END ROOT SIGNATURE
//	                                          what a witness signed of a subtree, without time; the last two in hex
//
// Notes and proofs are files or URLs, the place of tiles is a folder or a URL. The exit status is not 0 where anything is wrong.
package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	checkpoint "github.com/transparency-dev/formats/log"
	formats "github.com/transparency-dev/formats/note"
	"github.com/transparency-dev/formats/proof"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func open(text []byte, vkeys []string) *checkpoint.Checkpoint {
	verifiers := []note.Verifier{}
	for _, vkey := range vkeys {
		verifiers = append(verifiers, must(formats.NewVerifier(vkey)))
	}
	opened := must(note.Open(text, note.VerifierList(verifiers...)))
	if len(opened.Sigs) != len(vkeys) {
		log.Fatalf("%d of %d keys have signed", len(opened.Sigs), len(vkeys))
	}
	found := &checkpoint.Checkpoint{}
	rest := must(found.Unmarshal([]byte(opened.Text)))
	if len(rest) > 0 {
		log.Fatalf("lines after the checkpoint: %q", rest)
	}
	return found
}

// read gives what is in a file, or at an URL.
func read(place string) ([]byte, error) {
	if !strings.HasPrefix(place, "http://") {
		return os.ReadFile(filepath.FromSlash(place))
	}
	answer, err := http.Get(place)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", place, answer.Status)
	}
	return io.ReadAll(answer.Body)
}

// tiles reads tiles of 256 hashes, as C2SP tlog-tiles names them.
type tiles struct{ place string }

func (t tiles) Height() int                     { return 8 }
func (t tiles) SaveTiles([]tlog.Tile, [][]byte) {}
func (t tiles) ReadTiles(wanted []tlog.Tile) ([][]byte, error) {
	found := [][]byte{}
	for _, one := range wanted {
		name := "tile/" + strings.TrimPrefix(one.Path(), "tile/8/")
		content, err := read(t.place + "/" + name)
		if err != nil {
			return nil, err
		}
		found = append(found, content)
	}
	return found, nil
}

func lines[T ~[]tlog.Hash](proof T) string {
	text := []string{}
	for _, one := range proof {
		text = append(text, hex.EncodeToString(one[:]))
	}
	return strings.Join(text, " ")
}

func prove(place string, text []byte, vkey string, numbers []string) {
	// Ed25519 alone is x/mod's own; other keys are of formats.
	head := open(text, []string{vkey})
	tree := tlog.Tree{N: int64(head.Size), Hash: tlog.Hash(head.Hash)}
	reader := tlog.TileHashReader(tree, tiles{place})
	for _, number := range numbers {
		index := must(strconv.ParseInt(number, 10, 64))
		leaf := must(reader.ReadHashes([]int64{tlog.StoredHashIndex(0, index)}))[0]
		record := must(tlog.ProveRecord(tree.N, index, reader))
		if err := tlog.CheckRecord(record, tree.N, tree.Hash, index, leaf); err != nil {
			log.Fatal(err)
		}
		old := must(tlog.TreeHash(index+1, reader))
		consistency := must(tlog.ProveTree(tree.N, index+1, reader))
		if err := tlog.CheckTree(consistency, tree.N, tree.Hash, index+1, old); err != nil {
			log.Fatal(err)
		}
		fmt.Println(index, hex.EncodeToString(leaf[:]))
		fmt.Println(strings.TrimSpace("inclusion " + lines(record)))
		fmt.Println(strings.TrimSpace("consistency " + lines(consistency)))
	}
}

func checkProof(data, entry []byte, vkey string) {
	found := proof.TLogProof{}
	if err := found.Unmarshal(data); err != nil {
		log.Fatal(err)
	}
	head := open(found.Checkpoint, []string{vkey})
	hashes := tlog.RecordProof{}
	for _, one := range found.Hashes {
		hashes = append(hashes, tlog.Hash(one))
	}
	if err := tlog.CheckRecord(hashes, int64(head.Size), tlog.Hash(head.Hash), int64(found.Index), tlog.RecordHash(entry)); err != nil {
		log.Fatal(err)
	}
	fmt.Println(found.Index, hex.EncodeToString(found.ExtraData))
}

func checkSubtree(vkey, origin, start, end, root, signature string) {
	verifier := must(formats.NewMLDSAVerifier(vkey))
	from, to := must(strconv.ParseUint(start, 10, 64)), must(strconv.ParseUint(end, 10, 64))
	if !verifier.VerifySubtree(0, origin, from, to, must(hex.DecodeString(root)), must(hex.DecodeString(signature))) {
		log.Fatal("invalid signature of the subtree")
	}
}

func main() {
	log.SetFlags(0)
	given := func(at int) []byte { return must(read(os.Args[at])) }
	switch os.Args[1] {
	case "note":
		head := open(given(2), os.Args[3:])
		fmt.Println(head.Origin, head.Size, hex.EncodeToString(head.Hash))
	case "tiles":
		prove(os.Args[2], given(3), os.Args[4], os.Args[5:])
	case "proof":
		checkProof(given(2), given(3), os.Args[4])
	case "subtree":
		checkSubtree(os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6], os.Args[7])
	default:
		log.Fatal(os.Args[1])
	}
}
