package archive

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// folderMode is that of folders: audit events are for whoever runs the service.
const (
	folderMode = 0o750
	fileMode   = 0o640
)

// files writes objects into a folder of this machine. The library's driver would
// answer before they are on the disk, and looks whether a file exists before it
// moves its own in place, so that of two writers both could win.
type files struct {
	dir  string
	sync func(folder string) error // forces to the disk what is in it by which name
}

// put writes beside, forces that to the disk, and gives it the name, which fails
// where the name is taken. Beside is where nobody lists: a list fails at a file that
// goes away meanwhile. What a killed process leaves there is nobody's.
func (f files) put(_ context.Context, key string, content []byte) error {
	path := filepath.Join(f.dir, filepath.FromSlash(key))
	if err := f.makeFolders(filepath.Dir(path)); err != nil {
		return err
	}
	beside := filepath.Join(f.dir, rand.Text()+".tmp")
	err := writeFile(beside, content)
	if err == nil {
		err = os.Link(beside, path)
	}
	if errRemove := os.Remove(beside); errRemove != nil && !errors.Is(errRemove, fs.ErrNotExist) {
		err = errors.Join(err, errRemove)
	}
	switch {
	case err != nil && !errors.Is(err, fs.ErrExist):
		return err
	}
	// Also where it was there: whoever wrote it may not have got to this.
	if errSync := f.sync(filepath.Dir(path)); errSync != nil {
		return errSync
	}
	if err != nil {
		return errExists
	}
	return nil
}

// look fails where there is a folder, and it cannot be read. The library's driver
// leaves such a one out of its lists.
func (f files) look(folder string) error {
	dir, err := os.Open(filepath.Join(f.dir, filepath.FromSlash(folder)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err = dir.Readdirnames(1); errors.Is(err, io.EOF) {
		err = nil // it is empty
	}
	return errors.Join(err, dir.Close())
}

// makeFolders makes a folder below dir and those above it, and forces to the disk
// that they are there.
func (f files) makeFolders(path string) error {
	if _, err := os.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	above := filepath.Dir(path)
	if path != f.dir {
		if err := f.makeFolders(above); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, folderMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return f.sync(above)
}

func writeFile(path string, content []byte) (err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := file.Write(content); err != nil {
		return err
	}
	return file.Sync()
}

func syncFolder(path string) (err error) {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("force %s to the disk: %w", path, err)
	}
	return nil
}
