// Package modelconfig reads a model's config.json, as Hugging Face publishes it,
// into what serving needs to know: which layers there are and what each of them
// keeps in memory for a request, and how many parameters each part has, in which
// data type, and how tensor parallelism divides it.
//
// The counts follow the modules of transformers and the layouts of vLLM 0.23
// (vllm/model_executor/models); the tests hold the totals that transformers itself
// gives for the same configurations. A field that is missing is taken as those
// programs take it, and the assumption is listed. An architecture that is not known
// is read by the common names of fields, and what that leaves open is listed too,
// with bounds. An encoder of images is estimated from its sizes and kept apart.
//
// The package is pure: it is handed bytes and performs no I/O. Package perfmodel builds
// the memory ledger from it.
package modelconfig
