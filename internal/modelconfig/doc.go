// Package modelconfig reads a model's config.json, as Hugging Face publishes it, into a Model for
// serving: its layers, each layer's memory for a request, and the parameters of each part, with
// their data type and their division under tensor parallelism.
//
// Parse reads the fields (fields.go) by the model's family (families.yaml), or by common names if the family is unknown
// (read.go). Then a builder lists the weights, layer by layer (weights.go). Quantization gives the bytes of a weight
// (quant.go, quantization.yaml), and Model.With changes them by arguments of vllm serve (loading.go). Published has the
// configurations of well-known models (published.yaml).
//
// The counts follow the modules of transformers and the layouts of vLLM 0.23 (vllm/model_executor/models), and the
// tests compare them with transformers' totals. For a missing field, Parse takes the default of these programs and
// lists it in Assumed. It lists parts that it does not understand in Unknown, with bounds. The weights of an image
// encoder are estimated from its sizes and kept apart.
//
// The package is pure: it reads bytes and performs no I/O. Package perfmodel builds the memory ledger from a Model.
package modelconfig
