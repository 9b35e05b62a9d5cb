"""Small configurations of transformers' architectures, for bench/networks.py.

A row: the class of the model, that of its configuration, the shapes of its inputs (of token ids
where the shape begins with "ids"), and what differs from the configuration's defaults.
"""

IDS = ("ids", 1, 64)
SMALL = {
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 256,
}
TEXT = {**SMALL, "vocab_size": 1000}
GROUPED = {
    "hidden_size": 256,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "intermediate_size": 512,
    "vocab_size": 1000,
}
SPEECH = {
    **SMALL,
    "conv_dim": [64] * 7,
    "num_conv_pos_embeddings": 32,
    "num_conv_pos_embedding_groups": 4,
}

CONFIGS = {
    "llama": ("LlamaModel", "LlamaConfig", [IDS], {**GROUPED}),
    "gemma2": ("Gemma2Model", "Gemma2Config", [IDS], {**GROUPED, "sliding_window": 32}),
    "qwen3": ("Qwen3Model", "Qwen3Config", [IDS], {**GROUPED}),
    "gptneox": ("GPTNeoXModel", "GPTNeoXConfig", [IDS], {**TEXT}),
    "bloom": (
        "BloomModel",
        "BloomConfig",
        [IDS],
        {"hidden_size": 128, "n_layer": 2, "n_head": 4, "vocab_size": 1000},
    ),
    "albert": ("AlbertModel", "AlbertConfig", [IDS], {**TEXT, "embedding_size": 64}),
    "deberta": (
        "DebertaV2Model",
        "DebertaV2Config",
        [IDS],
        {
            **TEXT,
            "relative_attention": True,
            "pos_att_type": ["p2c", "c2p"],
            "max_relative_positions": 64,
            "position_buckets": 32,
        },
    ),
    "xlnet": (
        "XLNetModel",
        "XLNetConfig",
        [IDS],
        {"d_model": 256, "n_layer": 3, "n_head": 4, "d_inner": 512, "vocab_size": 1000},
    ),
    "funnel": (
        "FunnelModel",
        "FunnelConfig",
        [IDS],
        {"block_sizes": [1, 1], "d_model": 128, "n_head": 4, "d_head": 32, "d_inner": 256},
    ),
    "mamba": (
        "MambaModel",
        "MambaConfig",
        [("ids", 1, 32)],
        {"hidden_size": 128, "num_hidden_layers": 2, "vocab_size": 1000, "state_size": 8},
    ),
    "wav2vec2": ("Wav2Vec2Model", "Wav2Vec2Config", [(1, 16000)], {**SPEECH}),
    "conformer": ("Wav2Vec2ConformerModel", "Wav2Vec2ConformerConfig", [(1, 16000)], {**SPEECH}),
    "wavlm": ("WavLMModel", "WavLMConfig", [(1, 16000)], {**SPEECH}),
    "dac": ("DacModel", "DacConfig", [(1, 1, 4096)], {}),
    "yolos": (
        "YolosModel",
        "YolosConfig",
        [(1, 3, 128, 128)],
        {**SMALL, "image_size": [128, 128]},
    ),
    "patchtst": (
        "PatchTSTModel",
        "PatchTSTConfig",
        [(2, 128, 7)],
        {"num_input_channels": 7, "context_length": 128, "d_model": 64, "ffn_dim": 128},
    ),
}
