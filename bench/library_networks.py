"""Networks of further libraries, for bench/networks.py: detectors and segmentation of pictures,
speech, diffusion. Each a function that gives the network and the shapes of its inputs; "ids" begins
that of whole numbers.
"""

import torch


class First(torch.nn.Module):
    """A network whose only output is the first, or the one called "out"."""

    def __init__(self, model, *fixed, **settings):
        super().__init__()
        self.model, self.fixed, self.settings = model, fixed, settings

    def forward(self, *inputs):
        result = self.model(*inputs, *self.fixed, **self.settings)
        if isinstance(result, dict):
            return result["out"]
        return result if torch.is_tensor(result) else result[0]


def ultralytics(name):
    """yolo11n, yolo11n-seg, yolov8n-pose …, of 320x320 pixels."""
    from ultralytics.nn import tasks

    kinds = {"seg": tasks.SegmentationModel, "pose": tasks.PoseModel}
    kind = kinds.get(name.rpartition("-")[2], tasks.DetectionModel)
    model = kind(f"{name}.yaml", ch=3, verbose=False).eval().fuse()
    for module in model.modules():
        if hasattr(module, "export"):
            module.export, module.format = True, "onnx"
    return model, [(1, 3, 320, 320)]


def smp(name):
    """Unet, FPN, DeepLabV3Plus … of segmentation_models_pytorch, over a ResNet-18."""
    import segmentation_models_pytorch

    encoder = "mobilenet_v2" if name == "Segformer" else "resnet18"
    network = getattr(segmentation_models_pytorch, name)
    return network(encoder, encoder_weights=None, classes=3), [(1, 3, 256, 256)]


def torchaudio(name):
    from torchaudio import models

    if name == "Conformer":
        return First(models.Conformer(80, 4, 128, 4, 31), torch.tensor([200])), [(1, 200, 80)]
    if name == "Emformer":
        model = models.Emformer(
            128, 4, 256, 4, 16, right_context_length=4, left_context_length=16
        )
        return First(model, torch.tensor([64])), [(1, 68, 128)]
    if name == "ConvTasNet":
        model = models.ConvTasNet(
            enc_num_feats=128,
            msk_num_feats=64,
            msk_num_hidden_feats=128,
            msk_num_layers=4,
            msk_num_stacks=2,
        )
        return model, [(1, 1, 8000)]
    if name == "DeepSpeech":
        return models.DeepSpeech(80, n_hidden=256), [(1, 1, 100, 80)]
    return models.Wav2Letter(40, "mfcc", 13), [(1, 13, 400)]


def diffusers(name):
    import diffusers as library

    time = ("ids", 1)
    if name == "UNet2D":
        model = library.UNet2DModel(
            sample_size=32,
            block_out_channels=(64, 128, 128),
            down_block_types=("DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D"),
            norm_num_groups=16,
            attention_head_dim=16,
        )
        return First(model, return_dict=False), [(1, 3, 32, 32), time]
    if name == "UNet2DCondition":
        model = library.UNet2DConditionModel(
            sample_size=32,
            block_out_channels=(64, 128),
            layers_per_block=1,
            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
            cross_attention_dim=64,
            attention_head_dim=4,
            norm_num_groups=16,
        )
        return First(model, return_dict=False), [(1, 4, 32, 32), time, (1, 77, 64)]
    if name == "DiT":
        model = library.DiTTransformer2DModel(
            num_attention_heads=4,
            attention_head_dim=32,
            num_layers=4,
            sample_size=32,
            in_channels=4,
            out_channels=8,
        )
        return First(model, return_dict=False), [(1, 4, 32, 32), time, time]
    model = library.AutoencoderKL(
        block_out_channels=(32, 64),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        layers_per_block=1,
        norm_num_groups=16,
    )
    model.forward = model.decode
    return First(model, return_dict=False), [(1, 4, 32, 32)]


def segmentation(name):
    """Of torchvision."""
    from torchvision.models import segmentation as models

    network = getattr(models, name)
    return First(network(weights=None, weights_backbone=None)), [(1, 3, 224, 224)]


LIBRARIES = {
    "ultralytics": ultralytics,
    "smp": smp,
    "torchaudio": torchaudio,
    "diffusers": diffusers,
    "segmentation": segmentation,
}
