// The module of Ollama has no `vendor` folders, and Debian has no package of miniaudio: what is declared here
// is enough to compile, and no audio can be decoded.
#pragma once
#include <cstddef>
#include <cstdint>

typedef uint64_t ma_uint64;
enum ma_result { MA_SUCCESS = 0, MA_ERROR = -1 };
enum ma_format { ma_format_f32 };
struct ma_decoder {};
struct ma_decoder_config {};
static inline ma_decoder_config ma_decoder_config_init(ma_format, int, int) { return {}; }
static inline ma_result ma_decoder_init_memory(const void *, size_t, ma_decoder_config *, ma_decoder *) { return MA_ERROR; }
static inline ma_result ma_decoder_get_length_in_pcm_frames(ma_decoder *, ma_uint64 *) { return MA_ERROR; }
static inline ma_result ma_decoder_read_pcm_frames(ma_decoder *, void *, ma_uint64, ma_uint64 *) { return MA_ERROR; }
static inline void ma_decoder_uninit(ma_decoder *) {}
