// A complete Tocsin worker in Go, in one file, with the standard library alone.
//
//	cd examples/workers/go && go build -o go-worker . && TOCSIN_API_KEY=… ./go-worker
//
// Replace the handlers at the end by your own. docs/protocol.md has the rules that the rest keeps to:
// `tocsin conformance -- ./go-worker` checks them.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	capacity  = 20
	grace     = 25 * time.Second // for what runs, after SIGTERM
	maxResult = 256 * 1024
	maxLines  = 1000
	batch     = 200
	longPoll  = 20 * time.Second
)

// What goes over the wire. Tokens are text: they have 63 bits.
type (
	Claim struct {
		ID             string          `json:"id"`
		Token          string          `json:"token"`
		Task           string          `json:"task"`
		Payload        json.RawMessage `json:"payload"`
		Attempt        int             `json:"attempt"`
		TimeoutMs      int64           `json:"timeout_ms"`
		IdempotencyKey string          `json:"idempotency_key"`
	}
	Line struct {
		Seq     int            `json:"seq"`
		At      string         `json:"at"`
		Message string         `json:"message"`
		Fields  map[string]any `json:"fields,omitempty"`
	}
	Progress struct {
		Share float64 `json:"share"`
		Note  string  `json:"note"`
	}
	TaskError struct {
		Kind    string `json:"kind"`
		Message string `json:"message"`
	}
	Settlement struct {
		ID           string          `json:"id"`
		Token        string          `json:"token"`
		Verdict      string          `json:"verdict"`
		Result       json.RawMessage `json:"result,omitempty"`
		Error        *TaskError      `json:"error,omitempty"`
		Reason       string          `json:"reason,omitempty"`
		RetryAfterMs *int64          `json:"retry_after_ms,omitempty"`
		Logs         []Line          `json:"logs,omitempty"`
	}
	Settled struct {
		ID, Status, Problem string
	}
	Stop struct {
		ID, Reason string
	}
	Given struct {
		Claims  []Claim
		Settled []Settled
		Stop    []Stop
		Drain   bool
	}
	Heard struct {
		Lost  []string
		Stop  []Stop
		Drain bool
	}
	Held struct {
		ID       string    `json:"id"`
		Token    string    `json:"token"`
		Progress *Progress `json:"progress,omitempty"`
		Logs     []Line    `json:"logs,omitempty"`
	}
	Registered struct {
		Worker      string
		LeaseMs     int64 `json:"lease_ms"`
		HeartbeatMs int64 `json:"heartbeat_ms"`
	}
	object map[string]any
)

// How a handler ends other than by returning a value or any other error, which counts as failed.
type Outcome struct {
	verdict, reason string
	waitMs          *int64
}

func (o Outcome) Error() string { return o.reason }

func Reject(reason string) error               { return Outcome{"rejected", reason, nil} }
func Skip(reason string) error                 { return Outcome{"skipped", reason, nil} }
func RetryAfter(ms int64, reason string) error { return Outcome{"failed", reason, &ms} }
func Postpone(ms int64, reason string) error   { return Outcome{"postponed", reason, &ms} }

// Why an attempt's context ends.
var (
	errCancelled = errors.New("it was cancelled")
	errLost      = errors.New("another worker has it")
	errTimedOut  = errors.New("its time is over")
	errStopped   = errors.New("the worker stopped before the task was over")
)

// Attempt is a claim that is being run. Handlers end when its context does.
type Attempt struct {
	Claim
	ctx      context.Context
	cancel   context.CancelCauseFunc
	mu       sync.Mutex
	lines    []Line
	seq      int
	progress *Progress
}

func (a *Attempt) Progress(share float64, note string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.progress = &Progress{share, note}
}

func (a *Attempt) Log(message string, fields map[string]any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.seq < maxLines {
		a.seq++
		a.lines = append(a.lines, Line{a.seq, time.Now().UTC().Format(time.RFC3339Nano), message, fields})
	}
}

func (a *Attempt) held() Held {
	a.mu.Lock()
	defer a.mu.Unlock()
	return Held{a.ID, a.Token, a.progress, append([]Line{}, a.lines[:min(len(a.lines), batch)]...)}
}

// heard forgets what a heartbeat has told.
func (a *Attempt) heard(told Held) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lines = a.lines[min(len(told.Logs), len(a.lines)):]
	if a.progress == told.Progress {
		a.progress = nil
	}
}

// Refused is an answer that repeating the call would not change.
type Refused struct {
	status int
	detail string
}

func (r Refused) Error() string { return fmt.Sprintf("%d: %s", r.status, r.detail) }

type busy struct {
	error
	after time.Duration
}

type API struct {
	url, key string
	http     http.Client
}

func (api *API) call(ctx context.Context, method, path string, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, api.url+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+api.key)
	request.Header.Set("Content-Type", "application/json")
	response, err := api.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	switch status := response.StatusCode; {
	case err != nil:
		return err
	case status == 429 || status >= 500:
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
		return busy{fmt.Errorf("the server answered %d", status), time.Duration(min(seconds, 60)) * time.Second}
	case status >= 400:
		return Refused{status, string(answer)}
	case into == nil:
		return nil
	}
	return json.Unmarshal(answer, into)
}

// persistently repeats a call as it was until it is answered or refused, or not wanted any more.
func (api *API) persistently(ctx context.Context, unwanted <-chan struct{}, path string, body, into any) error {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		try, cancel := context.WithTimeout(ctx, longPoll+10*time.Second)
		err := api.call(try, "POST", path, body, into)
		cancel()
		var refused Refused
		if err == nil || errors.As(err, &refused) {
			return err
		}
		after := pause/2 + time.Duration(rand.Int63n(int64(pause/2)))
		var told busy
		if errors.As(err, &told) {
			after = max(after, told.after)
		}
		select {
		case <-ctx.Done():
			return err
		case <-unwanted:
			return err
		case <-time.After(after):
		}
	}
}

type Worker struct {
	api         *API
	mu          sync.Mutex
	registering sync.Mutex
	name        string
	registered  Registered
	held        map[string]*Attempt
	outcomes    []Settlement
	trusted     time.Time     // until then what is held is ours, by the monotonic clock
	changed     chan struct{} // has one when something has ended
	draining    chan struct{} // closed: no more claims
	once        sync.Once
	settling    bool
	fatal       error
}

func (w *Worker) path(verb string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return "/v1/workers/" + w.name + verb
}

// register introduces the worker, unless another goroutine has done so since `old` was its name.
func (w *Worker) register(ctx context.Context, old string) error {
	w.registering.Lock()
	defer w.registering.Unlock()
	if w.path("") != "/v1/workers/"+old {
		return nil
	}
	host, _ := os.Hostname()
	tasks := []object{}
	for name := range handlers {
		tasks = append(tasks, object{"name": name})
	}
	var answer Registered
	err := w.api.persistently(ctx, nil, "/v1/workers", object{
		"name": fmt.Sprintf("%s:%d", host, os.Getpid()), "sdk": "example-go", "protocol": 1,
		"queues": []string{"default"}, "tasks": tasks, "capacity": capacity, "lease": "30s",
	}, &answer)
	if err == nil {
		w.mu.Lock()
		w.name, w.registered = answer.Worker, answer
		w.trusted = time.Now().Add(time.Duration(answer.LeaseMs*9/10) * time.Millisecond)
		w.mu.Unlock()
	}
	return err
}

// again says whether a refused call is worth another try, under a new name. Anything else ends the worker.
func (w *Worker) again(ctx context.Context, err error, path string) bool {
	var refused Refused
	if errors.As(err, &refused) && refused.status == 404 {
		parts := strings.Split(path, "/")
		err = w.register(ctx, parts[3])
		if err == nil {
			return true
		}
	}
	if errors.As(err, &refused) && refused.status != 410 {
		w.mu.Lock()
		w.fatal = err
		w.mu.Unlock()
	}
	w.drain()
	return false
}

func (w *Worker) drain() { w.once.Do(func() { close(w.draining) }) }

func (w *Worker) notify() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// take removes what has ended, as much as fits a call.
func (w *Worker) take() []Settlement {
	w.mu.Lock()
	defer w.mu.Unlock()
	number, size := 0, 0
	for number < len(w.outcomes) && number < 1000 && size < 4<<20 {
		size += len(w.outcomes[number].Result) + 512*len(w.outcomes[number].Logs)
		number++
	}
	taken := append([]Settlement{}, w.outcomes[:number]...)
	w.outcomes, w.settling = w.outcomes[number:], number > 0
	return taken
}

func (w *Worker) put(settlements ...Settlement) {
	w.mu.Lock()
	w.outcomes = append(w.outcomes, settlements...)
	w.mu.Unlock()
	w.notify()
}

// judge looks at settlements that were not simply written. `lost` ends the matter; what is refused is told otherwise.
func (w *Worker) judge(settled []Settled, sent []Settlement) {
	for _, one := range settled {
		for _, told := range sent {
			if one.Status == "refused" && told.ID == one.ID && told.Verdict != "rejected" {
				w.put(Settlement{ID: told.ID, Token: told.Token, Verdict: "rejected",
					Error: &TaskError{"SettlementRefused", one.Problem}})
			}
		}
	}
}

// claimLoop asks for work until the worker drains. Settlements go by settleLoop: a parked call delays none.
func (w *Worker) claimLoop(ctx context.Context) {
	for seq := 1; ; seq++ {
		free := w.free()
		for free == 0 {
			select {
			case <-w.draining:
				return
			case <-time.After(10 * time.Millisecond):
				free = w.free()
			}
		}
		select {
		case <-w.draining:
			return
		default:
		}
		path, given := w.path("/claim"), Given{}
		ask := object{"seq": seq, "want": free, "wait_ms": longPoll.Milliseconds()}
		err := w.api.persistently(ctx, w.draining, path, ask, &given)
		if err != nil {
			var refused Refused
			if errors.As(err, &refused) && w.again(ctx, err, path) {
				continue
			}
			return
		}
		for _, one := range given.Claims {
			w.begin(one)
		}
		w.stop(given.Stop)
		if given.Drain {
			w.drain()
		}
	}
}

func (w *Worker) free() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return capacity - len(w.held)
}

func (w *Worker) settleLoop(ctx context.Context) {
	for {
		sent := w.take()
		if len(sent) == 0 {
			select {
			case <-ctx.Done():
				return
			case <-w.changed:
				continue
			}
		}
		path, answer := w.path("/settle"), struct{ Settled []Settled }{}
		err := w.api.persistently(ctx, nil, path, object{"settle": sent}, &answer)
		if err == nil {
			w.judge(answer.Settled, sent)
		} else if w.again(ctx, err, path) {
			w.put(sent...)
		} else {
			return
		}
	}
}

// beatLoop is heard every heartbeat, and a goroutine of its own stops what is held when no answer came in time.
func (w *Worker) beatLoop(ctx context.Context) {
	go w.watch(ctx)
	for {
		w.mu.Lock()
		every := time.Duration(w.registered.HeartbeatMs) * time.Millisecond
		w.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
		w.beat(ctx)
	}
}

func (w *Worker) beat(ctx context.Context) {
	w.mu.Lock()
	lease := time.Duration(w.registered.LeaseMs) * time.Millisecond
	attempts, told := map[string]*Attempt{}, []Held{}
	for id, attempt := range w.held {
		attempts[id] = attempt
		told = append(told, attempt.held())
	}
	w.mu.Unlock()
	path, sentAt, heard := w.path("/heartbeat"), time.Now(), Heard{}
	try, cancel := context.WithTimeout(ctx, max(lease/3, time.Second))
	defer cancel()
	err := w.api.call(try, "POST", path, object{"held": told, "running": len(told)}, &heard)
	var refused Refused
	if errors.As(err, &refused) {
		w.again(ctx, err, path)
	}
	if err != nil {
		return
	}
	w.mu.Lock()
	w.trusted = sentAt.Add(lease * 9 / 10)
	w.mu.Unlock()
	for _, one := range told {
		attempts[one.ID].heard(one)
	}
	for _, id := range heard.Lost {
		if attempt := attempts[id]; attempt != nil {
			w.lose(attempt)
		}
	}
	w.stop(heard.Stop)
	if heard.Drain {
		w.drain()
	}
}

func (w *Worker) watch(ctx context.Context) {
	for ctx.Err() == nil {
		w.mu.Lock()
		untrusted, held := time.Now().After(w.trusted), []*Attempt{}
		for _, attempt := range w.held {
			held = append(held, attempt)
		}
		w.mu.Unlock()
		for _, attempt := range held {
			if untrusted {
				w.lose(attempt)
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// lose stops an attempt that is another worker's by now. It is never settled.
func (w *Worker) lose(attempt *Attempt) {
	attempt.cancel(errLost)
	w.letGo(attempt)
}

func (w *Worker) letGo(attempt *Attempt) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held[attempt.ID] != attempt {
		return false
	}
	delete(w.held, attempt.ID)
	return true
}

func (w *Worker) stop(stops []Stop) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range stops {
		if attempt := w.held[one.ID]; attempt != nil {
			attempt.cancel(errCancelled)
		}
	}
}

func (w *Worker) begin(claim Claim) {
	handler, known := handlers[claim.Task]
	if !known {
		names := []object{{"id": claim.ID, "token": claim.Token}}
		_ = w.api.call(context.Background(), "POST", w.path("/release"), object{"claims": names}, nil)
		return
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	attempt := &Attempt{Claim: claim, ctx: ctx, cancel: cancel}
	w.mu.Lock()
	if before := w.held[claim.ID]; before != nil { // ours, lost, and ours again
		before.cancel(errLost)
	}
	w.held[claim.ID] = attempt
	w.mu.Unlock()
	go w.run(handler, attempt)
}

func (w *Worker) run(handler Handler, attempt *Attempt) {
	timer := time.AfterFunc(time.Duration(attempt.TimeoutMs)*time.Millisecond, func() { attempt.cancel(errTimedOut) })
	defer timer.Stop()
	value, err := guarded(handler, attempt)
	settlement := settlementOf(attempt, value, err)
	if w.letGo(attempt) && !errors.Is(context.Cause(attempt.ctx), errLost) {
		attempt.mu.Lock()
		settlement.Logs = attempt.lines
		attempt.mu.Unlock()
		w.put(settlement)
	}
}

// guarded makes an error of a panic: a handler does not end the worker.
func guarded(handler Handler, attempt *Attempt) (value any, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v", panicked)
		}
	}()
	return handler(attempt.ctx, attempt)
}

func settlementOf(attempt *Attempt, value any, err error) Settlement {
	told := Settlement{ID: attempt.ID, Token: attempt.Token, Verdict: "succeeded"}
	if err == nil {
		raw, problem := json.Marshal(value)
		if problem == nil && len(raw) > maxResult {
			problem = fmt.Errorf("its result has %d bytes, more than the %d that are kept", len(raw), maxResult)
		}
		if problem == nil {
			told.Result = raw
			return told
		}
		err = Reject(problem.Error())
	}
	if cause := context.Cause(attempt.ctx); cause != nil {
		err = cause
	}
	var outcome Outcome
	switch {
	case errors.As(err, &outcome):
		told.Verdict, told.RetryAfterMs = outcome.verdict, outcome.waitMs
		if outcome.verdict == "skipped" || outcome.verdict == "postponed" {
			told.Reason = outcome.reason
			return told
		}
	case errors.Is(err, errCancelled):
		told.Verdict = "cancelled"
	case errors.Is(err, errTimedOut):
		told.Verdict = "timed_out"
	default:
		told.Verdict = "failed"
	}
	told.Error = &TaskError{strings.TrimPrefix(fmt.Sprintf("%T", err), "*"), err.Error()}
	return told
}

func main() {
	url := os.Getenv("TOCSIN_URL")
	if url == "" {
		url = "http://127.0.0.1:8420"
	}
	w := &Worker{
		api: &API{url: url, key: os.Getenv("TOCSIN_API_KEY")}, held: map[string]*Attempt{},
		changed: make(chan struct{}, 1), draining: make(chan struct{}),
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	ctx, end := context.WithCancel(context.Background())
	if err := w.register(ctx, ""); err != nil {
		log.Fatalf("cannot register: %v", err)
	}
	claiming := make(chan struct{})
	go func() { defer close(claiming); w.claimLoop(ctx) }()
	go w.settleLoop(ctx)
	go w.beatLoop(ctx)
	select {
	case <-signals:
	case <-w.draining:
	}
	w.drain()
	w.endAsking(ctx, claiming)
	w.finish(signals)
	if err := w.failure(); err != nil {
		log.Fatalf("refused: %v", err)
	}
	leaving, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_ = w.api.call(leaving, "DELETE", w.path(""), nil, nil)
	end()
}

// endAsking has the parked request answered, until none follows: whatever it was given is known then.
func (w *Worker) endAsking(ctx context.Context, claiming chan struct{}) {
	for {
		poke, cancel := context.WithTimeout(ctx, time.Second)
		_ = w.api.call(poke, "POST", w.path("/claim"), object{"seq": 1 << 40, "want": 0}, nil)
		cancel()
		select {
		case <-claiming:
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// finish waits for what runs, as long as the grace or until a second signal, and for its settlements.
func (w *Worker) finish(signals chan os.Signal) {
	over := time.After(grace)
	for w.free() < capacity && w.failure() == nil {
		select {
		case <-signals:
			w.giveUp()
		case <-over:
			w.giveUp()
		case <-time.After(20 * time.Millisecond):
		}
	}
	for until := time.Now().Add(grace); w.untold() && w.failure() == nil && time.Now().Before(until); {
		time.Sleep(20 * time.Millisecond)
	}
}

func (w *Worker) giveUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, attempt := range w.held {
		attempt.cancel(errStopped)
		delete(w.held, id)
		w.outcomes = append(w.outcomes, Settlement{ID: id, Token: attempt.Token, Verdict: "failed",
			Error: &TaskError{"WorkerStopped", errStopped.Error()}})
	}
	w.notify()
}

func (w *Worker) untold() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.outcomes) > 0 || w.settling
}

func (w *Worker) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fatal
}

// Handlers: here is what you replace. These are the tasks that `tocsin conformance` asks for.
type Handler func(ctx context.Context, attempt *Attempt) (any, error)

var handlers map[string]Handler

func init() {
	handlers = map[string]Handler{
		"conformance.echo": with(func(_ context.Context, _ *Attempt, p struct{ Value json.RawMessage }) (any, error) {
			return p.Value, nil
		}),
		"conformance.attempt": func(_ context.Context, a *Attempt) (any, error) {
			return object{"attempt": a.Claim.Attempt, "idempotency_key": a.IdempotencyKey}, nil
		},
		"conformance.fail": with(func(_ context.Context, _ *Attempt, p struct{ Message string }) (any, error) {
			return nil, errors.New(p.Message)
		}),
		"conformance.reject": with(func(_ context.Context, _ *Attempt, p struct{ Message string }) (any, error) {
			return nil, Reject(p.Message)
		}),
		"conformance.again": with(func(_ context.Context, _ *Attempt, p waiting) (any, error) {
			return nil, RetryAfter(p.WaitMs, "try again")
		}),
		"conformance.postpone": with(func(_ context.Context, _ *Attempt, p waiting) (any, error) {
			return nil, Postpone(p.WaitMs, p.Reason)
		}),
		"conformance.skip": with(func(_ context.Context, _ *Attempt, p struct{ Reason string }) (any, error) {
			return nil, Skip(p.Reason)
		}),
		"conformance.sleep": with(func(ctx context.Context, _ *Attempt, p struct{ Seconds float64 }) (any, error) {
			return "slept", sleep(ctx, p.Seconds)
		}),
		"conformance.spin": with(func(ctx context.Context, _ *Attempt, p struct{ Seconds float64 }) (any, error) {
			for until := time.Now().Add(seconds(p.Seconds)); time.Now().Before(until) && ctx.Err() == nil; {
			}
			return nil, ctx.Err()
		}),
		"conformance.progress": with(func(ctx context.Context, a *Attempt, p Progress) (any, error) {
			a.Progress(p.Share, p.Note)
			return nil, sleep(ctx, 3600)
		}),
		"conformance.log": with(func(ctx context.Context, a *Attempt, p struct {
			Lines   int
			Seconds float64
		}) (any, error) {
			for number := 1; number <= p.Lines; number++ {
				a.Log(fmt.Sprintf("line %d", number), map[string]any{"number": number})
				if err := sleep(ctx, p.Seconds/float64(p.Lines)); err != nil {
					return nil, err
				}
			}
			return nil, nil
		}),
		"conformance.large": with(func(_ context.Context, _ *Attempt, p struct{ Bytes int }) (any, error) {
			return strings.Repeat("x", p.Bytes), nil
		}),
		"conformance.crash": func(context.Context, *Attempt) (any, error) { os.Exit(137); return nil, nil },
	}
}

type waiting struct {
	WaitMs int64 `json:"wait_ms"`
	Reason string
}

// with reads a payload before it calls a handler. A payload that it cannot read fails: a newer worker may.
func with[P any](handler func(context.Context, *Attempt, P) (any, error)) Handler {
	return func(ctx context.Context, attempt *Attempt) (any, error) {
		var payload P
		if err := json.Unmarshal(attempt.Payload, &payload); err != nil {
			return nil, err
		}
		return handler(ctx, attempt, payload)
	}
}

func sleep(ctx context.Context, long float64) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(seconds(long)):
		return nil
	}
}

func seconds(number float64) time.Duration { return time.Duration(number * float64(time.Second)) }
