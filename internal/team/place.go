package team

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"signalbox/internal/config"
	"signalbox/internal/durable"
)

// place is the record that this machine may connect to the database of a box. Unlike a Record it
// says nothing about what may be started.
type place struct {
	Box    string `json:"box"`
	Digest string `json:"place"`
}

// maxSecret is more than the secret of a cluster needs.
const maxSecret = 1 << 16

// digestPlace returns a digest of where the ledger of a box is. box is its real path, and address
// is what config.ReadJournal returned, or another value of the setting journal.
func digestPlace(box, address string) (string, error) {
	files := map[string][]byte{"journal": []byte(address)}
	if address == config.JournalCluster {
		cluster, err := config.ReadCluster(box)
		if err != nil {
			return "", err
		}
		if files["cluster"], err = json.Marshal(cluster); err != nil {
			return "", err
		}
		// Everyone who knows the secret can use the node of this machine.
		if files["secret"], err = durable.ReadRegular(cluster.SecretFile, maxSecret); err != nil &&
			!errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return digestOf(files), nil
}

// placeFile returns the file with the record of a place. A cluster has another one, because the
// settings can name it before the ledger is moved there.
func (s Store) placeFile(box, address string) (string, error) {
	if address == config.JournalCluster {
		return s.file("cluster", box)
	}
	return s.file("journal", box)
}

// AddPlace records that the ledger of a box may be where its configuration says: a command of the
// user has put it there.
func (s Store) AddPlace(box string) error {
	address, err := config.ReadJournal(box)
	if err != nil {
		return err
	}
	found, err := findPlaces(box, address)
	return errors.Join(err, s.RecordPlaces(found))
}

// AddPlaces is AddPlace for all places that the configuration names, because the user trusts it:
// also for a cluster that the ledger is not in.
func (s Store) AddPlaces(box string) error {
	found, err := FindPlaces(box)
	return errors.Join(err, s.RecordPlaces(found))
}

// Place is where the ledger of a box may be, as the configuration of the box says at some time.
type Place struct {
	address string
	record  place
}

// FindPlaces returns the places that the configuration of a box names now.
func FindPlaces(box string) ([]Place, error) {
	addresses, err := namedPlaces(box)
	if err != nil {
		return nil, err
	}
	return findPlaces(box, addresses...)
}

func findPlaces(box string, addresses ...string) (found []Place, err error) {
	for _, address := range addresses {
		if address == config.JournalSQLite {
			continue
		}
		real, err := realPath(box)
		if err != nil {
			return nil, err
		}
		digest, err := digestPlace(real, address)
		if err != nil {
			return nil, err
		}
		found = append(found, Place{address, place{real, digest}})
	}
	return found, nil
}

// RecordPlaces records places for AddPlaces. If the configuration has changed since they were
// found, they do not count.
func (s Store) RecordPlaces(places []Place) error {
	for _, p := range places {
		name, err := s.placeFile(p.record.Box, p.address)
		if err != nil {
			return err
		}
		if err := writeRecord(name, p.record); err != nil {
			return err
		}
	}
	return nil
}

// namedPlaces returns the places that the configuration of a box names.
func namedPlaces(box string) ([]string, error) {
	address, err := config.ReadJournal(box)
	if err != nil {
		return nil, err
	}
	cluster, err := config.ReadCluster(box)
	if err != nil || address == config.JournalCluster || len(cluster.Nodes) == 0 {
		return []string{address}, err
	}
	return []string{address, config.JournalCluster}, nil
}

// RemovePlaces removes what AddPlace and AddPlaces recorded. It reports whether there was
// something.
func (s Store) RemovePlaces(box string) (removed bool, err error) {
	box, err = realPath(box)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, address := range []string{"", config.JournalCluster} {
		name, err := s.placeFile(box, address)
		if err == nil {
			err = os.Remove(name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, err
		}
		removed = removed || err == nil
	}
	return removed, nil
}

// isLocal reports whether the configuration of a box names no place but its folder.
func isLocal(box string) bool {
	places, err := namedPlaces(box)
	return err == nil && slices.Equal(places, []string{config.JournalSQLite})
}

// KnowsPlaces reports whether each place that the configuration of a box names is its folder, or
// was recorded.
func (s Store) KnowsPlaces(box string) bool {
	places, err := namedPlaces(box)
	return err == nil &&
		!slices.ContainsFunc(places,
			func(address string) bool { return address != config.JournalSQLite && !s.hasPlace(box, address) })
}

// hasPlace reports whether this place was recorded. A record that others could have written does
// not count.
func (s Store) hasPlace(box, address string) bool {
	box, err := realPath(box)
	if err != nil {
		return false
	}
	digest, err := digestPlace(box, address)
	if err != nil {
		return false
	}
	name, err := s.placeFile(box, address)
	if err != nil {
		return false
	}
	info, err := os.Lstat(name)
	if err != nil || !isPrivate(info.Mode()) {
		return false
	}
	text, err := durable.ReadRegular(name, maxFile)
	var known place
	return err == nil && json.Unmarshal(text, &known) == nil && known == place{box, digest}
}

// CheckPlace returns an error if this machine must not connect to the database of a box, because
// somebody else may have written its configuration: git tracks a file of the box, or the user has
// neither put its ledger there, nor trusted it, nor named the box. That git does not track it says
// little: it may have come with an archive that has a repository, or be what git reset left of a
// merge. A connection alone sends passwords, and runs a node of a cluster. address is as for
// digestPlace.
func (s Store) CheckPlace(ctx context.Context, box, address string, named bool) error {
	if address == config.JournalSQLite {
		return nil
	}
	parent, err := realPath(filepath.Dir(box))
	if err != nil {
		return err
	}
	r, err := openRepository(ctx, parent)
	if err != nil {
		return err
	}
	if r != nil {
		defer r.close()
	}
	if _, err := checkBox(ctx, r, parent, box); err != nil || named || s.hasPlace(box, address) {
		return err
	}
	return Untrusted(fmt.Sprintf(
		"the box %s was not created on this machine, or its journal was changed, so signalbox does not connect to it", box))
}
