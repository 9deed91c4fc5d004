package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync"

	toolkit "github.com/prometheus/exporter-toolkit/web"
	"go.yaml.in/yaml/v3"
	"golang.org/x/crypto/bcrypt"

	"github.com/sixty-dev/sixty/internal/base/fileio"
)

// ReadWebConfig reads Prometheus' web configuration; without a file it is empty. The exporter toolkit applies its TLS
// settings, the gate the others.
func ReadWebConfig(path string) (*toolkit.Config, error) {
	config := &toolkit.Config{}
	if path == "" {
		return config, nil
	}
	text, err := fileio.Read(path, maxBody)
	if err != nil {
		return nil, err
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(config); err != nil { // an empty file, as while it is written, must not disable authentication
		if errors.Is(err, io.EOF) {
			err = errors.New("it is empty")
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return config, nil
}

// maxPasswords bounds the remembered passwords.
const maxPasswords = 100

// passwords compares passwords with bcrypt hashes. A comparison takes a tenth of a second of a processor, to slow down
// guessing. So one is made at a time, and correct passwords are remembered by hash.
type passwords struct {
	comparing chan struct{}
	mu        sync.Mutex
	right     map[[sha256.Size]byte]bool
}

func newPasswords() *passwords {
	return &passwords{comparing: make(chan struct{}, 1), right: map[[sha256.Size]byte]bool{}}
}

// match reports whether a password is a user's. An unknown user takes as long as a known one.
func (p *passwords) match(ctx context.Context, cfg *toolkit.Config, user, password string) bool {
	hash, known := cfg.Users[user]
	if !known {
		for _, hash = range cfg.Users {
			break
		}
	}
	if hash == "" {
		return false
	}
	key := sha256.Sum256([]byte(user + "\x00" + string(hash) + "\x00" + password))
	p.mu.Lock()
	right := p.right[key]
	p.mu.Unlock()
	if right {
		return true
	}
	select {
	case p.comparing <- struct{}{}:
		defer func() { <-p.comparing }()
	case <-ctx.Done():
		return false
	}
	if bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) != nil || !known {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.right) >= maxPasswords {
		clear(p.right)
	}
	p.right[key] = true
	return true
}
