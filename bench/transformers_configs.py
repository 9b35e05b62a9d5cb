"""Configurations of transformers' architectures, for bench/networks.py: small ones, and from
"beit" on of the width that they are used in, with four layers where they have more.

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

LONG = ("ids", 1, 128)
IMAGE = (1, 3, 224, 224)
FOUR = {"num_hidden_layers": 4}
FOUR_TEXT = {**FOUR, "vocab_size": 2000}
FOUR_OF_384 = {**FOUR, "hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536}
TEXT_OF_384 = {**FOUR_OF_384, "vocab_size": 2000}
TEXT_OF_512 = {**FOUR_TEXT, "hidden_size": 512, "num_attention_heads": 8}

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
    "beit": ("BeitModel", "BeitConfig", [IMAGE], {**FOUR}),
    "blipv": ("BlipVisionModel", "BlipVisionConfig", [IMAGE], {**FOUR, "image_size": 224}),
    "clipv": ("CLIPVisionModel", "CLIPVisionConfig", [IMAGE], {**FOUR}),
    "convbert": ("ConvBertModel", "ConvBertConfig", [LONG], {**TEXT_OF_384}),
    "cvt": ("CvtModel", "CvtConfig", [IMAGE], {}),
    "dinov2": (
        "Dinov2Model",
        "Dinov2Config",
        [IMAGE],
        {**FOUR, "hidden_size": 384, "num_attention_heads": 6},
    ),
    "distilbert": (
        "DistilBertModel",
        "DistilBertConfig",
        [LONG],
        {"n_layers": 4, "vocab_size": 2000},
    ),
    "dpt": (
        "DPTForDepthEstimation",
        "DPTConfig",
        [IMAGE],
        {
            **FOUR_OF_384,
            "num_hidden_layers": 12,
            "image_size": 224,
            "fusion_hidden_size": 64,
            "neck_hidden_sizes": [48, 96, 192, 384],
        },
    ),
    "electra": ("ElectraModel", "ElectraConfig", [LONG], {**FOUR_TEXT}),
    "falcon": ("FalconModel", "FalconConfig", [LONG], {**TEXT_OF_512}),
    "glpn": ("GLPNForDepthEstimation", "GLPNConfig", [(1, 3, 128, 128)], {}),
    "gptneo": (
        "GPTNeoModel",
        "GPTNeoConfig",
        [LONG],
        {
            "num_layers": 4,
            "attention_types": [[["global", "local"], 2]],
            "hidden_size": 512,
            "num_heads": 8,
            "vocab_size": 2000,
        },
    ),
    "hubert": ("HubertModel", "HubertConfig", [(1, 16000)], {**FOUR_OF_384, "num_hidden_layers": 2}),
    "levit": ("LevitModel", "LevitConfig", [IMAGE], {}),
    "mamba2": (
        "Mamba2Model",
        "Mamba2Config",
        [LONG],
        {
            "num_hidden_layers": 2,
            "vocab_size": 2000,
            "hidden_size": 256,
            "num_heads": 8,
            "head_dim": 64,
            "state_size": 32,
            "expand": 2,
            "n_groups": 1,
        },
    ),
    "mobilebert": ("MobileBertModel", "MobileBertConfig", [LONG], {**FOUR_TEXT}),
    "modernbert": (
        "ModernBertModel",
        "ModernBertConfig",
        [LONG],
        {
            **TEXT_OF_384,
            "intermediate_size": 576,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "cls_token_id": 1,
            "sep_token_id": 2,
        },
    ),
    "mpnet": ("MPNetModel", "MPNetConfig", [LONG], {**TEXT_OF_384}),
    "opt": (
        "OPTModel",
        "OPTConfig",
        [LONG],
        {**TEXT_OF_512, "ffn_dim": 2048, "word_embed_proj_dim": 512},
    ),
    "phi": ("PhiModel", "PhiConfig", [LONG], {**TEXT_OF_512, "intermediate_size": 2048}),
    "roformer": ("RoFormerModel", "RoFormerConfig", [LONG], {**TEXT_OF_384}),
    "rtdetr": ("RTDetrModel", "RTDetrConfig", [(1, 3, 256, 256)], {}),
    "sam": (
        "SamVisionModel",
        "SamVisionConfig",
        [(1, 3, 256, 256)],
        {
            **FOUR,
            "hidden_size": 192,
            "num_attention_heads": 3,
            "image_size": 256,
            "window_size": 7,
            "global_attn_indexes": [1, 3],
        },
    ),
    "segformer": ("SegformerModel", "SegformerConfig", [IMAGE], {}),
    "siglipv": ("SiglipVisionModel", "SiglipVisionConfig", [IMAGE], {**FOUR}),
    "smollm": (
        "LlamaModel",
        "LlamaConfig",
        [LONG],
        {
            **FOUR_TEXT,
            "hidden_size": 576,
            "intermediate_size": 1536,
            "num_attention_heads": 9,
            "num_key_value_heads": 3,
        },
    ),
    "squeezebert": ("SqueezeBertModel", "SqueezeBertConfig", [LONG], {**FOUR_TEXT}),
    "swin2sr": ("Swin2SRModel", "Swin2SRConfig", [(1, 3, 64, 64)], {}),
    "t5base": ("T5EncoderModel", "T5Config", [LONG], {"num_layers": 4, "vocab_size": 2000}),
    "upernet": ("UperNetForSemanticSegmentation", "UperNetConfig", [(1, 3, 128, 128)], {}),
    "videomae": (
        "VideoMAEModel",
        "VideoMAEConfig",
        [(1, 16, 3, 112, 112)],
        {**FOUR_OF_384, "image_size": 112},
    ),
}
