# SPDX-License-Identifier: Apache-2.0
"""More networks for networks.py: architectures of timm and transformers by table, small and with random weights.

TIMM: {name: (timm's name, size of the picture, arguments)}. CONFIGURED: {name: (configuration, model, its arguments, a function of the
random generator and the sample's number that makes a feed)}. SHRUNK: the same, where the configuration's arguments of the names in
SMALL have its sizes, too. Other functions make models of plain PyTorch.
"""
import numpy as np

from cases import smooth
from torch_parts import MOST, made, plain, spread, timm_model

VOCABULARY = 200
TEXT = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, vocab_size=VOCABULARY,
            max_position_embeddings=64)
GROUPED = {**TEXT, "num_key_value_heads": 2}
PICTURE = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=64, patch_size=16)
BACKBONE = dict(embed_dim=32, depths=[1, 1, 1, 1], num_heads=[2, 2, 4, 4], window_size=2, image_size=64)


# ---- feeds ----

def ids(rng, i, length=16):
    return {"input_ids": rng.integers(3, VOCABULARY, (1, length))}


def masked(rng, i, length=16):
    return {**ids(rng, i, length), "attention_mask": (np.arange(length) < length - i % 5).astype(np.int64)[None]}


def picture(rng, i, size=64):
    return {"pixel_values": smooth(rng, 1, 3, size)}


def pictures(rng, i):
    return {"pixel_values": np.stack([smooth(rng, 1, 3, 32)[0] for _ in range(4)])[None]}


def sound(rng, i, length=1600):
    return {"input_values": smooth(rng, 1, 1, 1, length)[0, 0]}


# ---- timm ----

TIMM = {
    "regnetx": ("regnetx_002", 64, {}),
    "edgenext": ("edgenext_xx_small", 64, {}),
    "efficientformer": ("efficientformer_l1", 224, dict(depths=(1, 1, 1, 2), embed_dims=(16, 32, 48, 64), num_vit=1)),
    "swinv2": ("swinv2_tiny_window8_256", 64, dict(img_size=64, window_size=4, embed_dim=32, depths=(2, 2), num_heads=(2, 4))),
    "levit": ("levit_128s", 224, dict(embed_dim=(32, 48, 64), depth=(1, 1, 1), num_heads=(2, 3, 4), key_dim=16)),
    "xcit": ("xcit_nano_12_p16_224", 64, dict(img_size=64, embed_dim=64, depth=2, num_heads=4)),
    "mvitv2": ("mvitv2_tiny", 64, dict(img_size=64)),
    "sequencer": ("sequencer2d_s", 64, dict(img_size=64, layers=(1, 1, 1, 1), embed_dims=(32, 48, 48, 48), hidden_sizes=(8, 12, 12, 12))),
    "efficientvit": ("efficientvit_b0", 64, {}),
    "efficientvit_m": ("efficientvit_m0", 224, {}),
    "samvit": ("samvit_base_patch16", 64, dict(img_size=64, embed_dim=64, depth=2, num_heads=4, global_attn_indexes=(1,), window_size=3)),
    "maxvit": ("maxvit_rmlp_pico_rw_256", 256, {}),
}

# ---- transformers ----

CONFIGURED = {
    "gpt_neox": ("GPTNeoXConfig", "GPTNeoXForCausalLM", {**TEXT, "use_cache": False}, masked),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", {**GROUPED, "head_dim": 16, "use_cache": False}, masked),
    "gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM", {**GROUPED, "head_dim": 16, "sliding_window": 8, "use_cache": False}, masked),
    "phi": ("PhiConfig", "PhiForCausalLM", {**TEXT, "use_cache": False}, masked),
    "bloom": ("BloomConfig", "BloomForCausalLM", dict(hidden_size=64, n_layer=2, n_head=4, vocab_size=200, use_cache=False), masked),
    "deberta": ("DebertaV2Config", "DebertaV2ForSequenceClassification", {**TEXT, "relative_attention": True, "pos_att_type": ["p2c", "c2p"],
                "position_buckets": 16, "norm_rel_ebd": "layer_norm", "share_att_key": True, "conv_kernel_size": 3, "num_labels": 4}, masked),
    "electra": ("ElectraConfig", "ElectraForPreTraining", {**TEXT, "embedding_size": 32}, masked),
    "longformer": ("LongformerConfig", "LongformerForSequenceClassification", {**TEXT, "attention_window": 8, "pad_token_id": 1}, masked),
    "xlnet": ("XLNetConfig", "XLNetForSequenceClassification", dict(d_model=64, n_layer=2, n_head=4, d_inner=128, vocab_size=200), masked),
    "mamba": ("MambaConfig", "MambaForCausalLM", dict(hidden_size=32, num_hidden_layers=1, vocab_size=200, state_size=4, use_cache=False),
              lambda rng, i: ids(rng, i, 8)),
    "clip_text": ("CLIPTextConfig", "CLIPTextModelWithProjection", {**TEXT, "projection_dim": 32, "eos_token_id": 199}, masked),
    "wav2vec2": ("Wav2Vec2Config", "Wav2Vec2ForCTC", dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
                 conv_dim=[32, 32, 32], conv_stride=[5, 4, 4], conv_kernel=[10, 8, 4], num_conv_pos_embeddings=16,
                 num_conv_pos_embedding_groups=4, vocab_size=30), sound),
    "conformer": ("Wav2Vec2ConformerConfig", "Wav2Vec2ConformerForCTC", dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                  intermediate_size=128, conv_dim=[32, 32, 32], conv_stride=[5, 4, 4], conv_kernel=[10, 8, 4], num_conv_pos_embeddings=16,
                  num_conv_pos_embedding_groups=4, vocab_size=30, conv_depthwise_kernel_size=7), sound),
    "segformer": ("SegformerConfig", "SegformerForSemanticSegmentation", dict(depths=[1, 1, 1, 1], hidden_sizes=[16, 24, 32, 48],
                  num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=32, num_labels=5), picture),
    "yolos": ("YolosConfig", "YolosForObjectDetection", {**PICTURE, "image_size": [64, 64], "num_detection_tokens": 10,
                                                         "num_labels": 6}, picture),
    "dpt": ("DPTConfig", "DPTForDepthEstimation", {**PICTURE, "num_hidden_layers": 4, "backbone_out_indices": [0, 1, 2, 3],
            "neck_hidden_sizes": [16, 16, 32, 32], "fusion_hidden_size": 16, "reassemble_factors": [4, 2, 1, .5]}, picture),
    "hf_swinv2": ("Swinv2Config", "Swinv2ForImageClassification", {**BACKBONE, "num_labels": 8}, picture),
    "rt_detr": ("RTDetrConfig", "RTDetrForObjectDetection", dict(d_model=32, num_queries=10, encoder_hidden_dim=32, encoder_ffn_dim=64,
                decoder_layers=2, decoder_ffn_dim=64, decoder_attention_heads=4, encoder_attention_heads=4, num_labels=6,
                feat_strides=[8, 16, 32], encoder_in_channels=[32, 48, 64], decoder_in_channels=[32, 32, 32], anchor_image_size=[64, 64],
                num_denoising=0), picture),
}


# Sizes, for the configurations that have arguments of these names
SMALL = dict(TEXT, embedding_size=32, num_key_value_heads=2, head_dim=16, image_size=64, patch_size=16, num_labels=5, d_model=64, n_embd=64,
             n_layer=2, n_head=4, n_positions=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
             encoder_ffn_dim=128, decoder_ffn_dim=128, ffn_dim=128, d_ff=128, d_kv=16, num_layers=2, num_decoder_layers=2, num_heads=4,
             sliding_window=8, num_mel_bins=40, use_cache=False, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
             max_source_positions=100, max_target_positions=64)
WAVE = dict(conv_dim=[32, 32, 32], conv_stride=[5, 4, 4], conv_kernel=[10, 8, 4], num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4,
            vocab_size=30)
ROUTED = dict(num_experts_per_tok=2, moe_intermediate_size=32, experts_implementation="batched_mm")
LOCAL = ["sliding_attention", "full_attention"]
STATES = dict(mamba_n_heads=8, mamba_d_head=16, mamba_d_state=8, mamba_chunk_size=8)
LEVELS = dict(depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 32, 64])


def pairs(rng, i):
    return {**masked(rng, i), "decoder_input_ids": rng.integers(3, VOCABULARY, (1, 8))}


def short(rng, i):
    return ids(rng, i, 8)


def smooth_rows(key, *shape):
    return lambda rng, i: {key: smooth(rng, 1, 1, *shape)[0]}


def series(rng, i):
    def rows(*shape):
        return smooth(rng, 1, 1, *shape)[0]
    return {"past_values": rows(1, 24)[0], "past_time_features": rows(24, 2), "past_observed_mask": np.ones((1, 24), np.float32),
            "future_values": rows(1, 8)[0], "future_time_features": rows(8, 2)}


SHRUNK = {
    "albert": ("AlbertConfig", "AlbertForSequenceClassification", {}, masked),
    "modernbert": ("ModernBertConfig", "ModernBertForSequenceClassification", dict(local_attention=8, cls_token_id=1, sep_token_id=2), masked),
    "big_bird": ("BigBirdConfig", "BigBirdForSequenceClassification", dict(block_size=4, num_random_blocks=1),
                 lambda rng, i: masked(rng, i, 64)),
    "esm": ("EsmConfig", "EsmForSequenceClassification", dict(position_embedding_type="rotary", token_dropout=False), masked),
    "canine": ("CanineConfig", "CanineForSequenceClassification", dict(local_transformer_stride=8, num_hash_buckets=64, downsampling_rate=4),
               lambda rng, i: masked(rng, i, 32)),
    "perceiver": ("PerceiverConfig", "PerceiverForMaskedLM", dict(d_latents=64, num_latents=8, num_blocks=1, num_self_attends_per_block=2,
                  num_self_attention_heads=4, num_cross_attention_heads=4, qk_channels=32, v_channels=64),
                  lambda rng, i: {"inputs": ids(rng, i, 64)["input_ids"]}),
    "rwkv": ("RwkvConfig", "RwkvForCausalLM", dict(attention_hidden_size=64, context_length=32), short),
    "xlstm": ("xLSTMConfig", "xLSTMForCausalLM", dict(num_blocks=1, num_hidden_layers=1, num_heads=2, chunk_size=8), short),
    "recurrent_gemma": ("RecurrentGemmaConfig", "RecurrentGemmaForCausalLM", dict(num_hidden_layers=3, lru_width=64,
                        attention_window_size=8), short),
    "bitnet": ("BitNetConfig", "BitNetForCausalLM", {}, masked),
    "diffllama": ("DiffLlamaConfig", "DiffLlamaForCausalLM", {}, masked),
    "gemma4": ("Gemma4TextConfig", "Gemma4ForCausalLM", dict(vocab_size_per_layer_input=VOCABULARY, hidden_size_per_layer_input=16,
               num_kv_shared_layers=0), masked),
    "led": ("LEDConfig", "LEDForConditionalGeneration", dict(attention_window=8, max_encoder_position_embeddings=64,
            max_decoder_position_embeddings=64), pairs),
    "umt5": ("UMT5Config", "UMT5ForConditionalGeneration", {}, pairs),
    "beit": ("BeitConfig", "BeitForImageClassification", dict(use_relative_position_bias=True, out_indices=[0, 1]), picture),
    "dinov2": ("Dinov2Config", "Dinov2ForImageClassification", dict(use_swiglu_ffn=True), picture),
    "hiera": ("HieraConfig", "HieraForImageClassification", dict(embed_dim=16, depths=[1, 1, 1, 1], num_heads=[1, 2, 4, 8],
              image_size=[64, 64], patch_size=[7, 7]), picture),
    "focalnet": ("FocalNetConfig", "FocalNetForImageClassification", dict(embed_dim=16, depths=[1, 1], hidden_sizes=[16, 32],
                 focal_levels=[2, 2], focal_windows=[3, 3], patch_size=4), picture),
    "swin2sr": ("Swin2SRConfig", "Swin2SRForImageSuperResolution", dict(embed_dim=24, depths=[1, 1], num_heads=[2, 2], window_size=4,
                image_size=16, patch_size=1), lambda rng, i: picture(rng, i, 16)),
    "glpn": ("GLPNConfig", "GLPNForDepthEstimation", {**LEVELS, "decoder_hidden_size": 16, "num_attention_heads": [1, 2, 2, 4]}, picture),
    "wavlm": ("WavLMConfig", "WavLMForCTC", {**WAVE, "num_buckets": 16, "max_bucket_distance": 32}, sound),
    "sew_d": ("SEWDConfig", "SEWDForCTC", {**WAVE, "squeeze_factor": 2}, sound),
    "parakeet": ("ParakeetEncoderConfig", "ParakeetEncoder", dict(subsampling_conv_channels=16, num_mel_bins=32, conv_kernel_size=5),
                 smooth_rows("input_features", 64, 32)),
    "vocoder": ("SpeechT5HifiGanConfig", "SpeechT5HifiGan", dict(model_in_dim=16, upsample_initial_channel=32, upsample_rates=[4, 4],
                upsample_kernel_sizes=[8, 8], resblock_kernel_sizes=[3, 5], resblock_dilation_sizes=[[1, 3], [1, 3]]),
                smooth_rows("spectrogram", 12, 16)),
    "codec": ("DacConfig", "DacModel", dict(encoder_hidden_size=8, downsampling_ratios=[2, 4], decoder_hidden_size=32, codebook_size=32,
              upsampling_ratios=[4, 2], codebook_dim=4, n_codebooks=2, hidden_size=32), smooth_rows("input_values", 1, 400)),
    "encodec": ("EncodecConfig", "EncodecModel", dict(num_filters=8, upsampling_ratios=[4, 2], codebook_size=32, codebook_dim=16, hidden_size=16,
                num_lstm_layers=1, target_bandwidths=[1.5], sampling_rate=2400), smooth_rows("input_values", 1, 400)),
    "musicgen_decoder": ("MusicgenDecoderConfig", "MusicgenForCausalLM", dict(vocab_size=64, num_codebooks=2, pad_token_id=63, bos_token_id=63),
                         lambda rng, i: {"input_ids": rng.integers(0, 60, (2, 8))}),
    "depth_anything": ("DepthAnythingConfig", "DepthAnythingForDepthEstimation", dict(backbone_config=dict(
        PICTURE, model_type="dinov2", image_size=56, patch_size=14, num_hidden_layers=4, reshape_hidden_states=False, apply_layernorm=True,
        out_features=["stage1", "stage2", "stage3", "stage4"]), neck_hidden_sizes=[16, 16, 32, 32], fusion_hidden_size=16,
        reassemble_hidden_size=64, head_hidden_size=8, patch_size=14), lambda rng, i: picture(rng, i, 56)),
    "conditional_detr": ("ConditionalDetrConfig", "ConditionalDetrForObjectDetection", dict(backbone_config=dict(
        model_type="resnet", embedding_size=16, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], out_features=["stage4"]), d_model=32,
        num_queries=8), picture),
    "poolformer": ("PoolFormerConfig", "PoolFormerForImageClassification", dict(depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 32, 64]), picture),
    "videomae": ("VideoMAEConfig", "VideoMAEForVideoClassification", dict(image_size=32, num_frames=4), pictures),
    "vivit": ("VivitConfig", "VivitForVideoClassification", dict(image_size=32, num_frames=4, tubelet_size=[2, 16, 16]), pictures),
    "imagegpt": ("ImageGPTConfig", "ImageGPTForImageClassification", {}, ids),
    "lfm2": ("Lfm2Config", "Lfm2ForCausalLM", dict(layer_types=["conv", "full_attention"], block_ff_dim=128), masked),
    "blip2_qformer": ("Blip2QFormerConfig", "Blip2QFormerModel", dict(encoder_hidden_size=48, cross_attention_frequency=1),
                      lambda rng, i: {"query_embeds": rng.standard_normal((1, 8, 64)).astype(np.float32),
                                      "encoder_hidden_states": smooth(rng, 1, 1, 16, 48)[0]}),
    "pegasus_x": ("PegasusXConfig", "PegasusXForConditionalGeneration", dict(block_size=8, num_global_tokens=4), pairs),
    "prophetnet": ("ProphetNetConfig", "ProphetNetForConditionalGeneration", dict(num_encoder_layers=1, num_decoder_layers=1,
                   num_encoder_attention_heads=4, num_decoder_attention_heads=4, num_buckets=8, relative_max_distance=16), pairs),
    "mixtral": ("MixtralConfig", "MixtralForCausalLM", dict(num_local_experts=4, num_experts_per_tok=2, experts_implementation="batched_mm"),
                masked),
    "deepseek_v3": ("DeepseekV3Config", "DeepseekV3ForCausalLM", dict(
        ROUTED, kv_lora_rank=16, q_lora_rank=24, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=16, n_routed_experts=8,
        n_shared_experts=1, first_k_dense_replace=1, n_group=2, topk_group=1, num_key_value_heads=4, head_dim=8), masked),
    "qwen3_moe": ("Qwen3MoeConfig", "Qwen3MoeForCausalLM", dict(ROUTED, num_experts=4), masked),
    "gpt_oss": ("GptOssConfig", "GptOssForCausalLM", dict(num_local_experts=4, num_experts_per_tok=2, layer_types=LOCAL,
                                                          experts_implementation="batched_mm"), masked),
    "smollm3": ("SmolLM3Config", "SmolLM3ForCausalLM", {}, masked),
    "phi4_mini": ("Phi3Config", "Phi3ForCausalLM", dict(partial_rotary_factor=.75, tie_word_embeddings=True), masked),
    "gemma2": ("Gemma2Config", "Gemma2ForCausalLM", dict(query_pre_attn_scalar=16), masked),
    "mamba2": ("Mamba2Config", "Mamba2ForCausalLM", dict(num_heads=4, hidden_size=32, expand=2, state_size=8, n_groups=1, chunk_size=8,
                                                         num_hidden_layers=1), ids),
    "granite_hybrid": ("GraniteMoeHybridConfig", "GraniteMoeHybridForCausalLM", dict(
        STATES, layer_types=["mamba", "attention"], num_local_experts=0, num_experts_per_tok=0, shared_intermediate_size=64), masked),
    "bamba": ("BambaConfig", "BambaForCausalLM", dict(STATES, attn_layer_indices=[1]), masked),
    "falcon_h1": ("FalconH1Config", "FalconH1ForCausalLM", dict(STATES, mamba_d_ssm=64, mamba_n_heads=4), masked),
    "nemotron_h": ("NemotronHConfig", "NemotronHForCausalLM", dict(hybrid_override_pattern="M*-", num_hidden_layers=3, mamba_num_heads=4,
                   mamba_head_dim=16, ssm_state_size=8, chunk_size=8, n_groups=1), masked),
    "sam": ("SamConfig", "SamModel", dict(vision_config=dict(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, mlp_dim=64, image_size=64, patch_size=8, output_channels=16,
        global_attn_indexes=[1], window_size=4, num_pos_feats=8), prompt_encoder_config=dict(
            hidden_size=16, image_size=64, patch_size=8, mask_input_channels=4), mask_decoder_config=dict(
                hidden_size=16, num_hidden_layers=1, num_attention_heads=2, mlp_dim=32, iou_head_hidden_dim=16)),
            lambda rng, i: {**picture(rng, i), "input_points": rng.uniform(5, 60, (1, 1, 2, 2)).astype(np.float32)}),
    "patchtst": ("PatchTSTConfig", "PatchTSTForPrediction", dict(context_length=64, patch_length=8, patch_stride=8, num_input_channels=3,
                 prediction_length=8, ffn_dim=64, do_mask_input=False), smooth_rows("past_values", 64, 3)),
    "ast": ("ASTConfig", "ASTForAudioClassification", dict(max_length=64, num_mel_bins=32, frequency_stride=8, time_stride=8),
            smooth_rows("input_values", 64, 32)),
    "bart": ("BartConfig", "BartForConditionalGeneration", {}, pairs),
    "bit": ("BitConfig", "BitForImageClassification", dict(embedding_size=16, hidden_sizes=[32, 32, 48, 64], depths=[1, 1, 1, 1], num_groups=8),
            picture),
    "convbert": ("ConvBertConfig", "ConvBertForSequenceClassification", dict(head_ratio=2, conv_kernel_size=5), masked),
    "ctrl": ("CTRLConfig", "CTRLLMHeadModel", dict(dff=128), masked),
    "dinov3": ("DINOv3ViTConfig", "DINOv3ViTModel", dict(num_register_tokens=2), picture),
    "exaone4": ("Exaone4Config", "Exaone4ForCausalLM", dict(layer_types=LOCAL), masked),
    "falcon": ("FalconConfig", "FalconForCausalLM", {}, masked),
    "gptj": ("GPTJConfig", "GPTJForCausalLM", dict(rotary_dim=8), masked),
    "hubert": ("HubertConfig", "HubertForCTC", WAVE, sound),
    "jamba": ("JambaConfig", "JambaForCausalLM", dict(num_experts=2, attn_layer_period=2, attn_layer_offset=1, expert_layer_period=4,
              expert_layer_offset=3, mamba_d_state=4, use_mamba_kernels=False), masked),
    "marian": ("MarianConfig", "MarianMTModel", {}, pairs),
    "mobilebert": ("MobileBertConfig", "MobileBertForSequenceClassification", dict(intra_bottleneck_size=32, true_hidden_size=32), masked),
    "mpt": ("MptConfig", "MptForCausalLM", {}, masked),
    "olmo2": ("Olmo2Config", "Olmo2ForCausalLM", {}, masked),
    "opt": ("OPTConfig", "OPTForCausalLM", dict(word_embed_proj_dim=64), masked),
    "pvt_v2": ("PvtV2Config", "PvtV2ForImageClassification", dict(LEVELS, num_attention_heads=[1, 2, 2, 4]), picture),
    "roformer": ("RoFormerConfig", "RoFormerForSequenceClassification", {}, masked),
    "stablelm": ("StableLmConfig", "StableLmForCausalLM", {}, masked),
    "starcoder2": ("Starcoder2Config", "Starcoder2ForCausalLM", {}, masked),
    "swiftformer": ("SwiftFormerConfig", "SwiftFormerForImageClassification", dict(depths=[1, 1, 1, 1], embed_dims=[16, 32, 32, 48]), picture),
    "timesfm": ("TimesFmConfig", "TimesFmModel", dict(patch_length=8, context_length=32, horizon_length=8, hidden_size=32, intermediate_size=32,
                head_dim=8, num_hidden_layers=1), lambda rng, i: {"past_values": smooth(rng, 1, 1, 1, 32)[0],
                "past_values_padding": np.zeros((1, 32), np.int64), "freq": np.zeros((1, 1), np.int64)}),
    "timesformer": ("TimesformerConfig", "TimesformerForVideoClassification", dict(image_size=32, num_frames=4), pictures),
    "xlm": ("XLMConfig", "XLMForSequenceClassification", dict(emb_dim=64, n_layers=2, n_heads=4), masked),
    "time_series": ("TimeSeriesTransformerConfig", "TimeSeriesTransformerModel", dict(prediction_length=8, context_length=16,
                    lags_sequence=[1, 2, 4, 8], num_time_features=2, d_model=32), series),
}


def sequential(model, shape, seed=7):
    rng = np.random.default_rng(seed)
    return spread(model, seed), [{"x": smooth(rng, 1, *(1, *shape)[-3:]).reshape(1, *shape)} for _ in range(2 * MOST)], {}


def crnn():
    """Convolutions over a line of text, a bidirectional LSTM over its columns."""
    import torch
    nn = torch.nn
    torch.manual_seed(7)

    class Crnn(nn.Module):
        def __init__(self):
            super().__init__()
            self.see = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1),
                                     nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d((2, 1)), nn.Conv2d(16, 32, 2), nn.ReLU())
            self.read = nn.LSTM(96, 24, bidirectional=True)
            self.out = nn.Linear(48, 12)

        def forward(self, x):
            x = self.see(x)
            x = x.flatten(1, 2).permute(2, 0, 1)
            return self.out(self.read(x)[0]).log_softmax(-1)
    return sequential(Crnn(), (1, 16, 48))


def gru_with_state():
    """A step of a recurrent network whose state goes in and out, as streaming programs run it."""
    import torch
    nn = torch.nn
    torch.manual_seed(7)

    class Step(nn.Module):
        def __init__(self):
            super().__init__()
            self.into, self.cell, self.out = nn.Linear(20, 32), nn.GRU(32, 32, 2, batch_first=True), nn.Linear(32, 20)

        def forward(self, x, state):
            y, state = self.cell(torch.relu(self.into(x)), state)
            return torch.sigmoid(self.out(y)) * x, state
    rng = np.random.default_rng(7)
    feeds = [{"x": smooth(rng, 1, 1, 4, 20)[0], "state": np.tanh(rng.standard_normal((2, 1, 32))).astype(np.float32)}
             for _ in range(2 * MOST)]
    return Step().eval(), feeds, {}


def lstm_cells():
    """LSTMCell in a loop that the exporter unrolls."""
    import torch
    nn = torch.nn
    torch.manual_seed(7)

    class Cells(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.out = nn.LSTMCell(12, 16), nn.Linear(16, 5)

        def forward(self, x):
            h = c = torch.zeros(1, 16)
            ends = []
            for i in range(6):
                h, c = self.cell(x[:, i], (h, c))
                ends.append(h)
            return self.out(torch.stack(ends, 1))
    return sequential(Cells(), (6, 12))


def plain_rnn():
    import torch
    nn = torch.nn
    torch.manual_seed(7)

    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.out = nn.RNN(12, 16, 2, batch_first=True, nonlinearity="relu"), nn.Linear(16, 5)

        def forward(self, x):
            return self.out(self.cell(x)[0][:, -1])
    return sequential(Plain(), (8, 12))


def recommender():
    """Tables of embeddings, their products by pairs, and dense features."""
    import torch
    nn = torch.nn
    torch.manual_seed(7)

    class Recommender(nn.Module):
        def __init__(self):
            super().__init__()
            self.tables = nn.ModuleList([nn.Embedding(50, 16) for _ in range(4)])
            self.dense = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU())
            self.top = nn.Sequential(nn.Linear(26, 32), nn.ReLU(), nn.Linear(32, 1), nn.Sigmoid())
            self.register_buffer("pairs", torch.tril_indices(5, 5, -1))

        def forward(self, dense, sparse):
            x = self.dense(dense)
            rows = torch.stack([x] + [table(sparse[:, i]) for i, table in enumerate(self.tables)], 1)
            products = torch.bmm(rows, rows.transpose(1, 2))
            return self.top(torch.cat([x, products[:, self.pairs[0], self.pairs[1]]], 1))
    rng = np.random.default_rng(7)
    feeds = [{"dense": rng.standard_normal((8, 10)).astype(np.float32), "sparse": rng.integers(0, 50, (8, 4))}
             for _ in range(2 * MOST)]
    return Recommender().eval(), feeds, {}


def point_cloud():
    """PointNet: a learned transformation of coordinates, shared layers, a maximum over points."""
    import torch
    nn = torch.nn
    torch.manual_seed(7)

    class Points(nn.Module):
        def __init__(self):
            super().__init__()
            def layers(*widths):
                return nn.Sequential(*(part for a, b in zip(widths, widths[1:])
                                       for part in (nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU())))
            self.turn, self.turned = layers(3, 16, 32), nn.Linear(32, 9)
            self.see, self.out = layers(3, 16, 64), nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 6))

        def forward(self, x):
            turn = self.turned(self.turn(x).amax(-1)).view(-1, 3, 3) + torch.eye(3)
            return self.out(self.see(torch.bmm(turn, x)).amax(-1))
    return sequential(Points(), (3, 40))


def graph_network():
    """Two layers of a graph convolution over a given adjacency, with attention by masks."""
    import torch
    nn = torch.nn
    torch.manual_seed(7)

    class Graph(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(12, 16, bias=False), nn.Linear(16, 16, bias=False)
            self.left, self.right, self.out = nn.Linear(16, 1), nn.Linear(16, 1), nn.Linear(16, 4)

        def forward(self, x, edges):
            x = torch.relu(edges @ self.first(x))
            y = self.second(x)
            scores = nn.functional.leaky_relu(self.left(y) + self.right(y).transpose(0, 1), .2)
            scores = scores.masked_fill(edges <= 0, -1e9).softmax(-1)
            return self.out(nn.functional.elu(scores @ y))
    rng = np.random.default_rng(7)
    feeds = []
    for _ in range(2 * MOST):
        edges = ((rng.random((10, 10)) < .3) | np.eye(10, dtype=bool)).astype(np.float32)
        feeds.append({"x": rng.standard_normal((10, 12)).astype(np.float32), "edges": edges / edges.sum(1, keepdims=True)})
    return Graph().eval(), feeds, {}


def radiance_field():
    """NeRF: sines of coordinates at many frequencies, a deep chain of dense layers with a skip."""
    import torch
    nn = torch.nn
    torch.manual_seed(7)

    class Field(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("bands", 2. ** torch.arange(4) * torch.pi)
            self.first = nn.ModuleList([nn.Linear(27, 48), nn.Linear(48, 48)])
            self.last = nn.ModuleList([nn.Linear(75, 48), nn.Linear(48, 48)])
            self.density, self.colour = nn.Linear(48, 1), nn.Linear(48, 3)

        def forward(self, x):
            angles = (x[..., None] * self.bands).flatten(-2)
            encoded = y = torch.cat([x, angles.sin(), angles.cos()], -1)
            for layer in self.first:
                y = torch.relu(layer(y))
            y = torch.cat([encoded, y], -1)
            for layer in self.last:
                y = torch.relu(layer(y))
            return nn.functional.softplus(self.density(y)), torch.sigmoid(self.colour(y))
    return sequential(Field(), (24, 3))


def spatial_transformer():
    """GridSample by an affine grid that a small network chooses."""
    import torch
    nn = torch.nn
    torch.manual_seed(7)

    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.where = nn.Sequential(nn.Conv2d(3, 8, 5, 2, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 6))
            self.see = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))
            ys, xs = torch.meshgrid(torch.linspace(-1, 1, 32), torch.linspace(-1, 1, 32), indexing="ij")
            self.register_buffer("grid", torch.stack([xs, ys, torch.ones_like(xs)], -1).view(1, -1, 3))

        def forward(self, x):
            turn = .3 * self.where(x).view(-1, 2, 3) + torch.eye(2, 3)
            grid = (self.grid @ turn.transpose(1, 2)).view(1, 32, 32, 2)
            return self.see(nn.functional.grid_sample(x, grid, align_corners=True))
    return sequential(Turned(), (3, 32, 32))


def autoencoder():
    """A variational one: convolutions, a code, transposed convolutions back to the picture."""
    import torch
    nn = torch.nn
    torch.manual_seed(7)

    class Auto(nn.Module):
        def __init__(self):
            super().__init__()
            self.down = nn.Sequential(nn.Conv2d(3, 8, 4, 2, 1), nn.ELU(), nn.Conv2d(8, 16, 4, 2, 1), nn.ELU(), nn.Flatten())
            self.mean, self.spread, self.back = nn.Linear(1024, 12), nn.Linear(1024, 12), nn.Linear(12, 1024)
            self.up = nn.Sequential(nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.BatchNorm2d(8), nn.ELU(), nn.ConvTranspose2d(8, 3, 4, 2, 1))

        def forward(self, x):
            x = self.down(x)
            mean, spread = self.mean(x), self.spread(x)
            return torch.sigmoid(self.up(self.back(mean + .1 * torch.exp(.5 * spread)).view(-1, 16, 8, 8))), mean, spread
    return sequential(Auto(), (3, 32, 32))


def tcn():
    """Causal padding, weight normalization, residuals: what forecasts by convolution are made of."""
    import torch
    nn = torch.nn
    torch.manual_seed(7)

    class Tcn(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Conv1d(a, 16, 3, dilation=2 ** i) for i, a in enumerate((4, 16, 16))])
            self.same, self.out = nn.Conv1d(4, 16, 1), nn.Linear(16, 3)

        def forward(self, x):
            skip = self.same(x)
            for i, layer in enumerate(self.layers):
                y = torch.relu(layer(nn.functional.pad(x, (2 ** (i + 1), 0))))
                x = torch.relu(y + skip) if i == 0 else torch.relu(y + x)
            return self.out(x[:, :, -1])
    return sequential(Tcn(), (4, 32))


def circular():
    """Padding around the edges."""
    import torch
    nn = torch.nn
    torch.manual_seed(7)
    return sequential(nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, padding_mode="circular"), nn.ReLU(),
                                    nn.Conv2d(8, 8, 3, padding=1, padding_mode="replicate"), nn.ReLU(), nn.Conv2d(8, 4, 1)), (3, 32, 32))


def fourier_gate():
    """Products in the frequency domain, as FNet-like and neural operators have them."""
    import torch
    nn = torch.nn
    torch.manual_seed(7)

    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.into, self.out, self.gate = nn.Linear(16, 16), nn.Linear(16, 4), nn.Parameter(.3 * torch.randn(7, 16, 2))

        def forward(self, x):
            x = torch.fft.rfft(self.into(x), dim=1) * torch.view_as_complex(self.gate)
            return self.out(torch.fft.irfft(x, n=12, dim=1))
    return sequential(Gate(), (12, 16))


def messages():
    """A graph network over a list of edges: attention by sums at indices."""
    import torch
    nn = torch.nn
    torch.manual_seed(7)

    class Messages(nn.Module):
        def __init__(self):
            super().__init__()
            self.into, self.score, self.out = nn.Linear(16, 24), nn.Linear(48, 1), nn.Linear(24, 4)

        def forward(self, x, edges):
            x = self.into(x)
            weight = nn.functional.leaky_relu(self.score(torch.cat([x[edges[0]], x[edges[1]]], -1))).exp()
            total = torch.zeros(10, 1).index_add(0, edges[1], weight) + 1e-6
            return self.out(torch.zeros(10, 24).index_add(0, edges[1], x[edges[0]] * weight / total[edges[1]]))
    rng = np.random.default_rng(7)
    feeds = [{"x": rng.standard_normal((10, 16)).astype(np.float32), "edges": rng.integers(0, 10, (2, 30))} for _ in range(2 * MOST)]
    return Messages().eval(), feeds, {}


def by_timm(name):
    def make():
        model, size, more = TIMM[name]
        return timm_model(model, size, **more)
    return make


def small_sizes(config):
    import transformers
    return {key: SMALL[key] for key in getattr(transformers, config)().to_dict() if key in SMALL}


def by_transformers(name):
    def make():
        config, kind, more, feed = CONFIGURED.get(name) or SHRUNK[name]
        if name in SHRUNK:
            more = {**small_sizes(config), **more}
        model, rng = made(config, kind, **more), np.random.default_rng(7)
        feeds = [feed(rng, i) for i in range(2 * MOST)]
        return plain(model, list(feeds[0])), feeds, {}
    return make


MAKERS = {**{name: by_timm(name) for name in TIMM}, **{name: by_transformers(name) for name in (*CONFIGURED, *SHRUNK)},
          **{make.__name__: make for make in (
              crnn, gru_with_state, lstm_cells, plain_rnn, recommender, point_cloud, graph_network, radiance_field, spatial_transformer,
              autoencoder, tcn, circular, fourier_gate, messages)}}
