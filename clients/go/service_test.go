package clearseal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// service is a simulated enclave and a host in front of it, as processes.
type service struct {
	t                *testing.T
	binaries, model  string
	enclaveAt, url   string
	enclave, relayed *exec.Cmd
	log              *os.File
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// startService starts both for one test.
func startService(t *testing.T) *service {
	t.Helper()
	binaries := folder(t, "CLEARSEAL_BIN_DIR", "built servers")
	model := folder(t, "CLEARSEAL_MODEL", "model")
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	started := &service{t: t, binaries: binaries, model: model, enclaveAt: freeAddress(t), log: log}
	address := freeAddress(t)
	started.url = "http://" + address
	started.startEnclave()
	started.relayed = started.start("host-proxy", "--listen", address, "--enclave", "tcp:"+started.enclaveAt,
		"--receipt-log", filepath.Join(t.TempDir(), "receipts"))
	t.Cleanup(func() {
		for _, process := range []*exec.Cmd{started.relayed, started.enclave} {
			_ = process.Process.Kill()
			_ = process.Wait()
		}
		log.Close()
	})
	started.wait()
	return started
}

func (s *service) start(name string, arguments ...string) *exec.Cmd {
	s.t.Helper()
	process := exec.Command(filepath.Join(s.binaries, name), arguments...)
	process.Stdout, process.Stderr = s.log, s.log
	if err := process.Start(); err != nil {
		s.t.Fatal(err)
	}
	return process
}

func (s *service) startEnclave() {
	s.enclave = s.start("enclave-server", "--listen", "tcp:"+s.enclaveAt, "--simulate-nsm", "--model", s.model)
}

// restartEnclave kills the enclave, and starts another one with new keys.
func (s *service) restartEnclave() {
	s.t.Helper()
	if err := s.enclave.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	_ = s.enclave.Wait()
	s.startEnclave()
	s.wait()
}

func (s *service) wait() {
	s.t.Helper()
	for range 2_400 {
		answer, err := http.Get(s.url + "/readyz")
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	text, _ := os.ReadFile(s.log.Name())
	s.t.Fatalf("the service is not ready:\n%s", text)
}

func (s *service) get(path string) []byte {
	s.t.Helper()
	answer, err := http.Get(s.url + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		s.t.Fatal(path, answer.StatusCode, err)
	}
	return body
}

// policy is the service's own, as if the user had chosen it.
func (s *service) policy() *Policy {
	s.t.Helper()
	policy, err := ReadPolicy(s.get("/v1/development-policy"))
	if err != nil {
		s.t.Fatal(err)
	}
	return policy
}

// logProof waits until the host has pulled the receipt from its enclave's log.
func (s *service) logProof(session *Session, bundle, earlier []byte) LogProof {
	s.t.Helper()
	for range 1_200 {
		proof, err := session.LogProof(s.t.Context(), bundle, earlier)
		if err == nil {
			return proof
		}
		if failed, ok := errors.AsType[*Error](err); !ok || failed.Status == 0 {
			s.t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.t.Fatal("the host does not have the receipt in its log")
	return LogProof{}
}

// hostile is a host that records what passes, and may change answers.
type hostile struct {
	mutex  sync.Mutex
	seen   []string
	bodies [][]byte
	// change gets path, status and body of an answer.
	change func(path string, status int, body []byte) (int, []byte)
	url    string
}

func startHostile(s *service) *hostile {
	s.t.Helper()
	host := &hostile{}
	server := httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		content, err := io.ReadAll(request.Body)
		if err != nil {
			return
		}
		host.mutex.Lock()
		host.seen = append(host.seen, request.URL.Path)
		host.bodies = append(host.bodies, append(fmt.Append(nil, request.Header), content...))
		change := host.change
		host.mutex.Unlock()
		forwarded, err := http.NewRequest(request.Method, s.url+request.URL.RequestURI(), bytes.NewReader(content))
		if err != nil {
			return
		}
		forwarded.Header = request.Header
		answer, err := http.DefaultTransport.RoundTrip(forwarded)
		if err != nil {
			writer.WriteHeader(http.StatusBadGateway)
			return
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			return
		}
		status := answer.StatusCode
		if change != nil {
			status, body = change(request.URL.Path, status, body)
		}
		writer.Header().Set("content-type", answer.Header.Get("content-type"))
		writer.WriteHeader(status)
		_, _ = writer.Write(body)
	}))
	s.t.Cleanup(server.Close)
	host.url = server.URL
	return host
}

func (h *hostile) set(change func(path string, status int, body []byte) (int, []byte)) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.change = change
}

// count returns the number of requests to a path.
func (h *hostile) count(path string) int {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	count := 0
	for _, seen := range h.seen {
		if seen == path {
			count++
		}
	}
	return count
}

const secretText = "only the enclave reads this sentence"

// mustConnect connects to a simulated enclave.
func mustConnect(t *testing.T, url string, policy *Policy) *Session {
	t.Helper()
	session, err := Connect(t.Context(), url, policy, AllowSimulated())
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// expectCode requires an error with a code, and without the text.
func expectCode(t *testing.T, err error, code string) {
	t.Helper()
	if CodeOf(err) != code {
		t.Errorf("expected %s, got %v", code, err)
	}
	if err != nil && strings.Contains(err.Error(), "enclave reads") {
		t.Errorf("the error contains the text: %v", err)
	}
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
