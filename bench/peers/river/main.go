// River: see bench/peers/driven.py for the commands.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const bulk = 1000

type options struct {
	Store   string  `json:"store"`
	Starts  string  `json:"starts"`
	Count   int     `json:"count"`
	Clients int     `json:"clients"`
	Due     float64 `json:"due"`
	Spread  float64 `json:"spread"`
}

// Noop carries about 200 bytes of JSON.
type Noop struct {
	Due  float64 `json:"due"`
	Text string  `json:"text"`
}

func (Noop) Kind() string { return "noop" }

type worker struct {
	river.WorkerDefaults[Noop]
	starts *starts
}

func (w *worker) Work(_ context.Context, job *river.Job[Noop]) error {
	w.starts.note(job.Args.Due)
	return nil
}

func main() {
	ctx := context.Background()
	var opts options
	check(json.Unmarshal([]byte(os.Args[2]), &opts))
	config, err := pgxpool.ParseConfig(opts.Store)
	check(err)
	config.MaxConns = int32(max(opts.Clients, 10))
	pool, err := pgxpool.NewWithConfig(ctx, config)
	check(err)
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: quiet()})
	check(err)
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	check(err)

	switch os.Args[1] {
	case "create":
		create(ctx, inserter(pool), opts)
	case "enqueue":
		enqueue(ctx, inserter(pool), opts)
	case "work", "recur":
		work(ctx, pool, opts)
	}
}

func inserter(pool *pgxpool.Pool) *river.Client[pgx.Tx] {
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: quiet()})
	check(err)
	return client
}

func create(ctx context.Context, client *river.Client[pgx.Tx], opts options) {
	var left atomic.Int64
	left.Store(int64(opts.Count))
	var clients sync.WaitGroup
	began := time.Now()
	for range opts.Clients {
		clients.Go(func() {
			for left.Add(-1) >= 0 {
				args, insert := someJob(opts)
				_, err := client.Insert(ctx, args, insert)
				check(err)
			}
		})
	}
	clients.Wait()
	report(began)
}

func enqueue(ctx context.Context, client *river.Client[pgx.Tx], opts options) {
	began := time.Now()
	for left := opts.Count; left > 0; left -= bulk {
		jobs := make([]river.InsertManyParams, min(bulk, left))
		for i := range jobs {
			jobs[i].Args, jobs[i].InsertOpts = someJob(opts)
		}
		_, err := client.InsertManyFast(ctx, jobs)
		check(err)
	}
	report(began)
}

func work(ctx context.Context, pool *pgxpool.Pool, opts options) {
	noted := record(opts.Starts)
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{starts: noted})
	queue := river.QueueConfig{MaxWorkers: 1000, FetchCooldown: time.Millisecond, FetchPollInterval: 100 * time.Millisecond}
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Logger:       quiet(),
		Queues:       map[string]river.QueueConfig{river.QueueDefault: queue},
		Workers:      workers,
		PeriodicJobs: everyMinute(opts.Count),
	})
	check(err)
	fmt.Println("ready")
	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	check(err)
	check(client.Start(ctx))
	if opts.Count > 0 {
		fmt.Println("set up")
	}
	select {}
}

type minutely struct{}

func (minutely) Next(current time.Time) time.Time {
	return current.Truncate(time.Minute).Add(time.Minute)
}

// everyMinute makes jobs that belong to the minute they are made in.
func everyMinute(count int) []*river.PeriodicJob {
	jobs := make([]*river.PeriodicJob, count)
	for i := range jobs {
		jobs[i] = river.NewPeriodicJob(minutely{}, func() (river.JobArgs, *river.InsertOpts) {
			return payload(millis(time.Now().Truncate(time.Minute))), nil
		}, &river.PeriodicJobOpts{ID: "every-minute-" + strconv.Itoa(i)})
	}
	return jobs
}

// starts notes due and start instants; a goroutine writes them every few milliseconds.
type starts struct {
	mutex sync.Mutex
	noted bytes.Buffer
}

func (s *starts) note(due float64) {
	var pair [16]byte
	_, err := binary.Encode(pair[:], binary.LittleEndian, [2]float64{due, millis(time.Now())})
	check(err)
	s.mutex.Lock()
	s.noted.Write(pair[:])
	s.mutex.Unlock()
}

func record(path string) *starts {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	check(err)
	noted := &starts{}
	go func() {
		for range time.Tick(5 * time.Millisecond) {
			noted.mutex.Lock()
			_, err := noted.noted.WriteTo(file)
			noted.mutex.Unlock()
			check(err)
		}
	}()
	return noted
}

func someJob(opts options) (Noop, *river.InsertOpts) {
	due := opts.Due + rand.Float64()*opts.Spread
	return payload(due), &river.InsertOpts{ScheduledAt: time.UnixMicro(int64(due * 1000))}
}

func payload(due float64) Noop { return Noop{Due: due, Text: strings.Repeat("x", 165)} }

func millis(instant time.Time) float64 { return float64(instant.UnixMicro()) / 1000 }

func report(began time.Time) {
	check(json.NewEncoder(os.Stdout).Encode(map[string]float64{"seconds": time.Since(began).Seconds()}))
}

func quiet() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
