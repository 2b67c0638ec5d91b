# SPDX-License-Identifier: Apache-2.0
"""What the makers of PyTorch networks share: seeded weights and samples, models of timm and of transformers by name."""
import os

import numpy as np

from cases import smooth

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1")
# What a model of transformers answers, the first of these that it has
ANSWERS = ("logits", "predicted_depth", "reconstruction", "text_embeds", "prediction_outputs", "masks_queries_logits", "waveform",
           "audio_values", "pred_masks", "last_hidden_state")
MOST = 16  # samples to calibrate on, and as many to check with


def spread(module, seed):
    """Seeds are set before a model is made; here its normalizations get statistics and scales as a trained one has them."""
    import torch
    generator = torch.Generator().manual_seed(seed)
    def uniform(tensor, low, high):
        tensor.data.copy_(low + (high - low) * torch.rand(tensor.shape, generator=generator))
    for part in module.modules():
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
            uniform(part.running_mean, -.2, .2)
            uniform(part.running_var, .5, 1.5)
        if isinstance(part, (torch.nn.modules.batchnorm._BatchNorm, torch.nn.LayerNorm)) and part.weight is not None:
            uniform(part.weight, .7, 1.3)
            if part.bias is not None:
                uniform(part.bias, -.2, .2)
    return module.eval()


def images(rng, size, channels=3, name="x"):
    return [{name: smooth(rng, 1, channels, size)} for _ in range(2 * MOST)]


def timm_model(name, size, **more):
    import timm
    import torch
    torch.manual_seed(7)
    return spread(timm.create_model(name, pretrained=False, num_classes=20, **more), 7), images(np.random.default_rng(7), size), {}


def made(config, kind, **more):
    """A model of transformers from a configuration."""
    import torch
    import transformers
    torch.manual_seed(7)
    if not isinstance(config, transformers.PretrainedConfig):
        config = getattr(transformers, config)(**more)
    config._attn_implementation = "eager"
    return spread(getattr(transformers, kind)(config), 7)


def plain(model, names):
    """A module whose forward takes arrays by position and answers with a tensor, which is what exporters like."""
    import torch

    class Plain(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, *values):
            out = self.inner(**dict(zip(names, values)))
            if torch.is_tensor(out):
                return out
            return next(out[key] for key in ANSWERS if key in out)
    return Plain().eval()
