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

// The modes of folders and files: only the service's user and group read audit events.
const (
	folderMode = 0o750
	fileMode   = 0o640
)

// files writes objects into a folder of this machine. The library's driver returns
// before the content is on the disk. It also checks for an existing file before it
// renames its own into place, so that two concurrent writers could both succeed.
type files struct {
	dir  string
	sync func(folder string) error // forces the folder's directory entries to the disk
}

// put writes a temporary file, forces it to the disk, and links it to its name, which
// fails if the name is taken. The temporary file is outside the listed folders,
// because a list fails if a file disappears during it. A killed process leaves its
// temporary file behind.
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
	// Also if the object existed: its writer may have stopped before this step.
	if errSync := f.sync(filepath.Dir(path)); errSync != nil {
		return errSync
	}
	if err != nil {
		return errExists
	}
	return nil
}

// look fails if a folder exists and cannot be read. The library's driver leaves such a
// folder out of its lists.
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

// makeFolders creates a folder below dir with its parents, and forces their directory
// entries to the disk.
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
