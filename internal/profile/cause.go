package profile

// A Cause is the reason for which a device was idle.
type Cause uint8

// The causes up to ProfilerTime say how the host spent the time until it launched the next activity. If calls are
// nested, the outermost call with a cause counts. The later causes are for the time from the launch on.
const (
	HostLate          Cause = iota // it launched again within 2 ms, with nothing particular in between
	HostWork                       // it computed something else for longer than that
	LockWait                       // it waited for a lock
	HostCopy                       // it waited for a blocking copy
	Allocating                     // it allocated or freed memory
	FirstUse                       // it loaded or compiled code, or instantiated a graph
	Synchronising                  // it waited for a device
	NothingToDo                    // it waited for work
	GarbageCollection              // it collected Python's garbage
	DataLoading                    // it waited for the next batch of training data
	HostQuiet                      // nothing of it was recorded
	ProfilerTime                   // the profiler held it up
	LaunchGap                      // the duration of the launch, and the pause between two kernels
	StartDelayed                   // the activity began much later than its launch, while nothing else ran
	CommWait                       // it waited for communication
	CopyWait                       // it waited for a copy
	Dependency                     // it waited for another stream or an event
	NotRecorded                    // its launch is not in the trace
	Causes                         // number of causes
)

var causeNames = [Causes]string{
	"host late", "host computes", "locks", "blocking copies", "memory allocation", "first use", "synchronisation",
	"nothing to do", "garbage collection", "data loading", "host not recorded", "profiler", "launch gaps",
	"start delayed", "waiting for communication", "waiting for copies", "waiting for another stream",
	"launch not recorded",
}

func (c Cause) String() string { return causeNames[min(c, Causes-1)] }

// causeOf returns what the host does in a call, by the call's name; HostWork if the name says nothing about it.
func causeOf(name string) Cause {
	for _, c := range causeWords {
		if c.cause == NothingToDo && holdsAny(name, "_bootstrap", ": run") { // a thread's main function, not a wait
			continue
		}
		if holdsAny(name, c.words...) {
			return c.cause
		}
	}
	return HostWork
}

// causeWords are parts of calls' names, with what the host does in such a call; the first match decides. The
// profiler's are Kineto's (libkineto/src/CuptiActivity.cpp, overheadKindString).
var causeWords = []struct {
	cause Cause
	words []string
}{
	{ProfilerTime, []string{"Activity Buffer Request", "Buffer Flush", "Instrumentation", "Command Buffer Full"}},
	{DataLoading, []string{"DataLoader", "dataloader.py", "data_load", "load_batch", ": get_batch", "collate"}},
	{GarbageCollection, []string{"gc.collect", "gc_collect"}},
	{FirstUse, []string{
		"ModuleLoad", "LibraryLoad", "Module Loading", "Lazy Function Loading", "ModuleGetFunction",
		"GraphInstantiate", "StreamCreate", "StreamPriorityRange", "EventCreate", "PrimaryCtx", "convert_frame",
		"compile_fx", "codecache", "triton/compiler", "async_compile", "hiprtc", "nvrtc",
	}},
	{Synchronising, []string{"Synchronize"}},
	{Allocating, []string{
		"cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaHostRegister", "cuMem", "hipMalloc", "hipFree",
		"hipHostMalloc", "hipHostRegister", "MemGetInfo",
	}},
	{HostCopy, []string{"Memcpy"}},
	{NothingToDo, []string{
		"poll", "select.", "selectors.py", "queue.py", "epoll", "recv", "time.sleep", "wait_for", "zmq",
	}},
	{LockWait, []string{"acquire", "lock.wait", "threading.py", "futex", "mutex"}},
	{FirstUse, []string{"LaunchKernel"}},
}
