// Package modelconfig reads a model's config.json, as Hugging Face publishes it, into a Model for
// serving: its layers, each layer's memory for a request, and the parameters of each part, with
// their data type and their division under tensor parallelism.
//
// Parse reads the fields by the model's family (families.yaml), or by common names if the family is unknown. Then a
// builder lists the weights, layer by layer. The counts follow the modules of transformers and the layouts of vLLM
// 0.23 (vllm/model_executor/models); the tests hold transformers' own totals for the same configurations. A missing
// field takes those programs' default, which is listed in Assumed. Parts that are not understood are listed in
// Unknown, with bounds. An encoder of images is estimated from its sizes and kept apart.
//
// The package is pure: it reads bytes and performs no I/O. Package perfmodel builds the memory ledger from a Model.
package modelconfig
