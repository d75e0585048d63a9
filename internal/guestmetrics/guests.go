package guestmetrics

import (
	"context"
	"sync"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// roundLimit bounds the time in which a scrape asks launchers. Prometheus waits for 10 s by default, and the answer must be written in this time, too.
	roundLimit = 7 * time.Second
	// answerLimit bounds the time for one launcher: its connection, its handshake and its answer.
	answerLimit = 2 * time.Second
	// fresh is the time for which the answers of a round are used for further scrapes, so that two instances of Prometheus do not ask twice.
	fresh = 5 * time.Second
	// mostAsked bounds the launchers that are asked at once, mostOfNamespace the launchers of one namespace among them. So guests that do not answer, for
	// example because of a NetworkPolicy in their namespace, do not delay guests of another namespace.
	mostAsked       = 128
	mostOfNamespace = 32
)

// Asker asks a launcher for statistics. subresource.Launchers implements it.
type Asker interface {
	Statistics(ctx context.Context, vmi *v1.VirtualMachineInstance) (hypervisor.Statistics, error)
}

// Guests collects the statistics of guests in pods by asking their launchers at each scrape. It is empty in replicas that do not lead.
type Guests struct {
	// rounds has a series for each result of the last round.
	rounds *prometheus.GaugeVec
	asking singleflight.Group

	mutex sync.Mutex
	// from is nil while this replica does not lead.
	from *source
	// answered are the answers of the last round, which ended at the time ended.
	answered []answer
	ended    time.Time
	// silent are the guests that did not answer in the last round: they are asked last.
	silent map[types.UID]bool
}

// source is where a round finds guests, and how it asks them.
type source struct {
	cached client.Reader
	asks   Asker
}

// answer is the answer of a VMI's launcher.
type answer struct {
	vmi        *v1.VirtualMachineInstance
	statistics hypervisor.Statistics
}

// Results of asking a launcher.
const (
	resultAnswered = "answered"
	resultFailed   = "failed"
	resultLate     = "late"
)

// NewGuests returns a collector that is empty until its replica leads.
func NewGuests() *Guests {
	return &Guests{rounds: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kiln_guest_statistics",
		Help: "Guests whose launcher was asked for statistics at the last scrape of " + Path + " by result: answered, failed, or late if the time was over " +
			"before; of the replica that asks.",
	}, []string{"result"})}
}

// Metric returns the metric with the results of the last round.
func (g *Guests) Metric() prometheus.Collector { return g.rounds }

// setSource sets the source of rounds; nil if this replica no longer leads.
func (g *Guests) setSource(from *source) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.from, g.answered, g.silent, g.ended = from, nil, nil, time.Time{}
	g.rounds.Reset()
	if from != nil {
		for _, result := range []string{resultAnswered, resultFailed, resultLate} {
			g.rounds.WithLabelValues(result)
		}
	}
}

// Describe implements prometheus.Collector.
func (*Guests) Describe(all chan<- *prometheus.Desc) {
	for _, s := range allStatistics() {
		all <- s.desc
	}
}

// Collect implements prometheus.Collector.
func (g *Guests) Collect(all chan<- prometheus.Metric) {
	for _, one := range g.currentAnswers() {
		sendStatistics(all, one.vmi, one.statistics)
	}
}

// currentAnswers returns the answers of the last round if they are fresh, else of a new one. Concurrent scrapes share a round.
func (g *Guests) currentAnswers() []answer {
	shared, _, _ := g.asking.Do("", func() (any, error) {
		g.mutex.Lock()
		from, silent, answered := g.from, g.silent, g.answered
		isFresh := time.Since(g.ended) < fresh
		g.mutex.Unlock()
		if from == nil || isFresh {
			return answered, nil
		}
		r := &round{asks: from.asks, silent: map[types.UID]bool{}}
		r.askAll(from, silent)
		g.keepAnswers(from, r)
		return r.answered, nil
	})
	return shared.([]answer)
}

// keepAnswers keeps the results of a round, unless this replica has ceased to lead.
func (g *Guests) keepAnswers(from *source, r *round) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.from != from {
		return
	}
	g.answered, g.silent, g.ended = r.answered, r.silent, time.Now()
	for result, n := range map[string]int{resultAnswered: len(r.answered), resultFailed: r.failed, resultLate: r.guests - len(r.answered) - r.failed} {
		g.rounds.WithLabelValues(result).Set(float64(n))
	}
}

// servedGuests returns the running VMIs whose launcher serves. They belong to the cache, and must not be changed.
func (s *source) servedGuests(ctx context.Context) (running []*v1.VirtualMachineInstance, err error) {
	pods := &v1alpha1.GuestPodList{}
	if err := s.cached.List(ctx, pods, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	serves := map[types.UID]bool{}
	for i := range pods.Items {
		serves[pods.Items[i].Spec.VMIUID] = pods.Items[i].Status.ServerCertificate != ""
	}
	vmis := &v1.VirtualMachineInstanceList{}
	if err := s.cached.List(ctx, vmis, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	for i := range vmis.Items {
		if vmi := &vmis.Items[i]; vmi.Status.Phase == v1.Running && serves[vmi.UID] {
			running = append(running, vmi)
		}
	}
	return running, nil
}

// round asks all guests once, and collects their answers.
type round struct {
	asks Asker

	// guests is the number of guests to ask.
	guests int

	mutex    sync.Mutex
	answered []answer
	silent   map[types.UID]bool
	failed   int
}

// askAll asks the guests of a source. It asks the guests that were silent in the last round last.
func (r *round) askAll(from *source, silent map[types.UID]bool) {
	ctx, cancel := context.WithTimeout(context.Background(), roundLimit)
	defer cancel()
	vmis, err := from.servedGuests(ctx)
	if err != nil {
		ctrl.Log.WithName("guests").Error(err, "no guest is asked for its statistics")
		return
	}
	r.guests = len(vmis)
	var first, last []*v1.VirtualMachineInstance
	for _, vmi := range vmis {
		if silent[vmi.UID] {
			last = append(last, vmi)
		} else {
			first = append(first, vmi)
		}
	}
	r.askGuests(ctx, first)
	r.askGuests(ctx, last)
}

// askGuests asks guests, each in a goroutine that waits for its turn. It returns when all have answered or failed, or the context has ended.
func (r *round) askGuests(ctx context.Context, vmis []*v1.VirtualMachineInstance) {
	all, inNamespace := semaphore.NewWeighted(mostAsked), map[string]*semaphore.Weighted{}
	var work sync.WaitGroup
	for _, vmi := range vmis {
		own := inNamespace[vmi.Namespace]
		if own == nil {
			own = semaphore.NewWeighted(mostOfNamespace)
			inNamespace[vmi.Namespace] = own
		}
		work.Go(func() {
			if own.Acquire(ctx, 1) != nil { // first, so that a guest that waits for its namespace does not delay other namespaces
				return
			}
			defer own.Release(1)
			if all.Acquire(ctx, 1) != nil {
				return
			}
			defer all.Release(1)
			limited, cancel := context.WithTimeout(ctx, answerLimit)
			defer cancel()
			statistics, err := r.asks.Statistics(limited, vmi)
			r.addAnswer(vmi, statistics, err)
		})
	}
	work.Wait()
}

func (r *round) addAnswer(vmi *v1.VirtualMachineInstance, statistics hypervisor.Statistics, err error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if err == nil {
		r.answered = append(r.answered, answer{vmi, statistics})
		return
	}
	r.failed++
	r.silent[vmi.UID] = true
	ctrl.Log.WithName("guests").V(1).Info("a guest has no statistics", "namespace", vmi.Namespace, "vmi", vmi.Name, "reason", err.Error())
}
