"""The C declarations of the libllama builds that are known, for cffi's ABI mode.

Nothing checks these against the library at compile time, so a wrong one is a silent wrong number: `library` tests the
layout of the two parameter structures at load, and `selftest` the numbers. Enumerations are declared as int32_t.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Layout:
    """One known form of `llama_context_params`. `after_types` are the fields between `type_v` and `abort_callback`."""

    name: str
    after_types: str = ""


LAYOUTS = (Layout("b11549", "size_t moe_cache_size;"), Layout("b11434"))
"""Newest first. Builds in between belong to one of the two; which, is found by looking at the default values."""

BLOB_BYTES = 1024
PROBE = f"""
typedef struct {{ unsigned char bytes[{BLOB_BYTES}]; }} blob;
blob llama_model_default_params(void);
blob llama_context_default_params(void);
"""
"""A returned structure is written through a hidden pointer, so a larger one is safe to receive: it cannot be overrun."""

_TYPES = """
typedef int32_t llama_pos;
typedef int32_t llama_token;
typedef int32_t llama_seq_id;
typedef bool (*llama_progress_callback)(float progress, void * user_data);
typedef void (*ggml_log_callback)(int32_t level, const char * text, void * user_data);

struct llama_model_params {
    void * devices;
    const void * tensor_buft_overrides;
    int32_t n_gpu_layers;
    int32_t split_mode;
    int32_t load_mode;
    int32_t lazy_mode;
    int32_t main_gpu;
    const float * tensor_split;
    llama_progress_callback progress_callback;
    void * progress_callback_user_data;
    const void * kv_overrides;
    bool vocab_only;
    bool check_tensors;
    bool use_extra_bufts;
    bool no_host;
    bool no_alloc;
    bool load_mtp;
};

struct llama_context_params {
    uint32_t n_ctx;
    uint32_t n_batch;
    uint32_t n_ubatch;
    uint32_t n_seq_max;
    uint32_t n_rs_seq;
    uint32_t n_outputs_max;
    uint32_t n_outputs_max_per_seq;
    int32_t n_threads;
    int32_t n_threads_batch;
    int32_t ctx_type;
    int32_t rope_scaling_type;
    int32_t pooling_type;
    int32_t attention_type;
    int32_t flash_attn_type;
    float rope_freq_base;
    float rope_freq_scale;
    float yarn_ext_factor;
    float yarn_attn_factor;
    float yarn_beta_fast;
    float yarn_beta_slow;
    uint32_t yarn_orig_ctx;
    float defrag_thold;
    void * cb_eval;
    void * cb_eval_user_data;
    int32_t type_k;
    int32_t type_v;
    @AFTER_TYPES@
    void * abort_callback;
    void * abort_callback_data;
    bool embeddings;
    bool offload_kqv;
    bool no_perf;
    bool op_offload;
    bool swa_full;
    bool kv_unified;
    void * samplers;
    size_t n_samplers;
    void * ctx_other;
};

typedef struct llama_batch {
    int32_t n_tokens;
    llama_token * token;
    float * embd;
    llama_pos * pos;
    int32_t * n_seq_id;
    llama_seq_id ** seq_id;
    int8_t * logits;
} llama_batch;

typedef struct llama_token_data { llama_token id; float logit; float p; } llama_token_data;
typedef struct llama_token_data_array {
    llama_token_data * data;
    size_t size;
    int64_t selected;
    bool sorted;
} llama_token_data_array;
"""

_FUNCTIONS = """
struct llama_model_params llama_model_default_params(void);
struct llama_context_params llama_context_default_params(void);
const char * llama_version(void);
const char * llama_print_system_info(void);
void llama_backend_init(void);
void llama_log_set(ggml_log_callback log_callback, void * user_data);

void * llama_model_load_from_file(const char * path_model, struct llama_model_params params);
void llama_model_free(void * model);
void * llama_init_from_model(void * model, struct llama_context_params params);
void llama_free(void * ctx);

uint32_t llama_n_ctx_seq(const void * ctx);
uint32_t llama_n_batch(const void * ctx);
uint32_t llama_n_ubatch(const void * ctx);
uint32_t llama_n_seq_max(const void * ctx);
int32_t llama_n_threads(void * ctx);
void llama_set_n_threads(void * ctx, int32_t n_threads, int32_t n_threads_batch);

int32_t llama_model_n_ctx_train(const void * model);
int32_t llama_model_n_embd(const void * model);
int32_t llama_model_n_embd_out(const void * model);
int32_t llama_model_n_layer(const void * model);
int32_t llama_model_n_layer_nextn(const void * model);
uint64_t llama_model_size(const void * model);
uint64_t llama_model_n_params(const void * model);
int32_t llama_model_desc(const void * model, char * buf, size_t buf_size);
bool llama_model_has_encoder(const void * model);
bool llama_model_has_decoder(const void * model);
bool llama_model_is_recurrent(const void * model);
bool llama_model_is_hybrid(const void * model);
bool llama_model_is_diffusion(const void * model);
const char * llama_model_chat_template(const void * model, const char * name);
int32_t llama_model_meta_count(const void * model);
int32_t llama_model_meta_key_by_index(const void * model, int32_t i, char * buf, size_t buf_size);
int32_t llama_model_meta_val_str_by_index(const void * model, int32_t i, char * buf, size_t buf_size);

const void * llama_model_get_vocab(const void * model);
int32_t llama_vocab_type(const void * vocab);
int32_t llama_vocab_n_tokens(const void * vocab);
const char * llama_vocab_get_text(const void * vocab, llama_token token);
bool llama_vocab_is_eog(const void * vocab, llama_token token);
bool llama_vocab_is_control(const void * vocab, llama_token token);
llama_token llama_vocab_bos(const void * vocab);
llama_token llama_vocab_eos(const void * vocab);
llama_token llama_vocab_eot(const void * vocab);
bool llama_vocab_get_add_bos(const void * vocab);
bool llama_vocab_get_add_eos(const void * vocab);
int32_t llama_tokenize(const void * vocab, const char * text, int32_t text_len, llama_token * tokens,
                       int32_t n_tokens_max, bool add_special, bool parse_special);
int32_t llama_token_to_piece(const void * vocab, llama_token token, char * buf, int32_t length, int32_t lstrip, bool special);
int32_t llama_detokenize(const void * vocab, const llama_token * tokens, int32_t n_tokens, char * text,
                         int32_t text_len_max, bool remove_special, bool unparse_special);

void * llama_get_memory(const void * ctx);
bool llama_memory_seq_rm(void * mem, llama_seq_id seq_id, llama_pos p0, llama_pos p1);
void llama_memory_seq_cp(void * mem, llama_seq_id src, llama_seq_id dst, llama_pos p0, llama_pos p1);
llama_pos llama_memory_seq_pos_min(void * mem, llama_seq_id seq_id);
llama_pos llama_memory_seq_pos_max(void * mem, llama_seq_id seq_id);
size_t llama_state_seq_get_size(void * ctx, llama_seq_id seq_id);
size_t llama_state_seq_get_data(void * ctx, uint8_t * dst, size_t size, llama_seq_id seq_id);
size_t llama_state_seq_set_data(void * ctx, const uint8_t * src, size_t size, llama_seq_id dest_seq_id);

int32_t llama_decode(void * ctx, llama_batch batch);
float * llama_get_logits(void * ctx);

void * llama_sampler_init_grammar(const void * vocab, const char * grammar_str, const char * grammar_root);
void * llama_sampler_clone(const void * smpl);
void llama_sampler_accept(void * smpl, llama_token token);
void llama_sampler_apply(void * smpl, llama_token_data_array * cur_p);
void llama_sampler_reset(void * smpl);
void llama_sampler_free(void * smpl);
"""

_HEAD_FUNCTIONS = """
struct llama_embd { const float * data; size_t n_rows; size_t n_embd; };
void * llama_batch_ext_init(void * ctx);
void llama_batch_ext_free(void * batch);
void llama_batch_ext_clear(void * batch);
int32_t llama_batch_ext_add_token(void * batch, llama_seq_id seq_id, llama_token id);
int32_t llama_batch_ext_add_embd(void * batch, llama_seq_id seq_id, struct llama_embd embd);
bool llama_batch_ext_set_embd_state(void * batch, int32_t idx, struct llama_embd embd);
bool llama_batch_ext_set_embd_token(void * batch, int32_t idx, struct llama_embd embd);
bool llama_batch_ext_set_output_logits(void * batch, int32_t idx, bool value);
bool llama_batch_ext_set_pos(void * batch, int32_t idx, const llama_pos * pos);
int32_t llama_process(void * ctx, int32_t type, void * batch);
void _Z26llama_set_embeddings_nextnP13llama_contextbb(void * ctx, bool value, bool masked);
float * _Z26llama_get_embeddings_nextnP13llama_context(void * ctx);
void _Z30llama_set_embeddings_layer_inpP13llama_contextjb(void * ctx, uint32_t layer, bool value);
float * _Z30llama_get_embeddings_layer_inpP13llama_contextj(void * ctx, uint32_t layer);
const int32_t * _Z28llama_model_target_layer_idsPK11llama_model(const void * model);
uint32_t _Z30llama_model_target_layer_ids_nPK11llama_model(const void * model);
"""
"""What prediction heads and EAGLE-3 drafts need. The last six are C++ and called by their mangled names."""

PUT_OUT_HIDDEN = "_Z26llama_set_embeddings_nextnP13llama_contextbb"
GET_HIDDEN = "_Z26llama_get_embeddings_nextnP13llama_context"
PUT_OUT_LAYER = "_Z30llama_set_embeddings_layer_inpP13llama_contextjb"
GET_LAYER = "_Z30llama_get_embeddings_layer_inpP13llama_contextj"
TARGET_LAYERS = "_Z28llama_model_target_layer_idsPK11llama_model"
TARGET_LAYERS_COUNT = "_Z30llama_model_target_layer_ids_nPK11llama_model"


def declarations(layout: Layout) -> str:
    """The whole text for `FFI.cdef`."""
    return _TYPES.replace("@AFTER_TYPES@", layout.after_types) + _FUNCTIONS + _HEAD_FUNCTIONS


def _names(text: str) -> tuple[str, ...]:
    return tuple(
        line.split("(")[0].split()[-1] for line in text.splitlines() if "(" in line and not line.startswith(" ")
    )


REQUIRED = _names(_FUNCTIONS)
HEAD = _names(_HEAD_FUNCTIONS)
