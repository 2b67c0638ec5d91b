# SPDX-License-Identifier: Apache-2.0
"""More networks for networks.py: architectures of timm and transformers by table, small and with random weights.

TIMM: {name: (timm's name, size of the picture, arguments)}. CONFIGURED: {name: (configuration, model, its arguments, a function of the
random generator and the sample's number that makes a feed)}. Other functions make models of plain PyTorch.
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


def by_timm(name):
    def make():
        model, size, more = TIMM[name]
        return timm_model(model, size, **more)
    return make


def by_transformers(name):
    def make():
        config, kind, more, feed = CONFIGURED[name]
        model, rng = made(config, kind, **more), np.random.default_rng(7)
        feeds = [feed(rng, i) for i in range(2 * MOST)]
        return plain(model, list(feeds[0])), feeds, {}
    return make


MAKERS = {**{name: by_timm(name) for name in TIMM}, **{name: by_transformers(name) for name in CONFIGURED},
          **{make.__name__: make for make in (crnn, gru_with_state, lstm_cells, plain_rnn, recommender,
                                              point_cloud, graph_network, radiance_field, spatial_transformer, autoencoder, tcn)}}
