"""Models, with one file per paper. `pretrained` adds the Hugging Face and timm interfaces."""

from importlib import import_module

# File -> the names exported from it. A file is imported when one of its names is first used.
_FILES = {
    "bart": ["BART", "bart_base", "bart_large"],
    "bert": [
        "BERT",
        "BERTClassifier",
        "BERTMaskedLM",
        "BERTPreTraining",
        "BERTQuestionAnswering",
        "BERTTokenClassifier",
        "bert_base",
        "bert_large",
        "bert_medium",
        "bert_mini",
        "bert_small",
        "bert_tiny",
    ],  # fmt: skip
    "captioner": ["Captioner", "ConvEncoder"],
    "clip": ["CLIP", "ImageTower", "TextTower", "contrastive_loss"],
    "clip_sizes": ["clip_b_16", "clip_b_32", "clip_l_14"],
    "conformer": [
        "ConformerBlock",
        "ConformerEncoder",
        "ConvSubsampling",
        "conformer_l",
        "conformer_m",
        "conformer_s",
    ],  # fmt: skip
    "deit": [
        "DistilledVisionTransformer",
        "deit_b_16",
        "deit_s_16",
        "deit_ti_16",
        "hard_distillation_loss",
        "soft_distillation_loss",
    ],  # fmt: skip
    "detr": [
        "DETR",
        "detr_resnet101",
        "detr_resnet101_dc5",
        "detr_resnet50",
        "detr_resnet50_dc5",
    ],  # fmt: skip
    "dino": ["DINO", "DINOHead"],
    "dino_transformer": ["DINOTransformer"],
    "dinov2": ["DINOv2", "dinov2_b_14", "dinov2_g_14", "dinov2_l_14", "dinov2_s_14"],
    "elmo": ["BiLM", "ELMo", "ScalarMix"],
    "gpt": ["GPT", "gpt2", "gpt2_large", "gpt2_medium", "gpt2_xl"],
    "image_gpt": ["ImageGPT", "image_gpt_l", "image_gpt_m", "image_gpt_s"],
    "llama": [
        "Llama",
        "llama2_70b",
        "llama3_8b",
        "llama_13b",
        "llama_33b",
        "llama_65b",
        "llama_7b",
    ],  # fmt: skip
    "local_relation": [
        "LRNet",
        "LocalRelation",
        "LocalSelfAttention",
        "lr_net_26",
        "lr_net_50",
    ],  # fmt: skip
    "mae": ["MaskedAutoencoder", "mae_b_16", "mae_h_14", "mae_l_16"],
    "marian": ["Marian", "marian_base"],
    "mask_predict": ["ConditionalMaskedLM"],
    "mvit": ["MViT", "MultiscaleBlock", "PoolingAttention", "mvit_b_16x4"],
    "mvitv2": ["MViTv2", "mvitv2_b", "mvitv2_l", "mvitv2_s", "mvitv2_s_16x4", "mvitv2_t"],
    "non_local": ["NonLocalBlock", "add_non_local", "non_local_resnet50"],
    "pretrained": ["from_pretrained"],
    "recurrent_state": ["RecurrentState"],
    "reference_detr": ["ReferenceDETR"],
    "relative_attention": ["RelativeAttention"],
    "resnet": [
        "ResNet",
        "resnet101",
        "resnet152",
        "resnet18",
        "resnet34",
        "resnet50",
    ],  # fmt: skip
    "seq2seq": ["RecurrentDecoder", "RecurrentEncoder", "Seq2Seq"],
    "show_attend_tell": ["ShowAttendTell", "SoftAttention"],
    "speech_recognition": ["CTCRecognizer", "LSTMEncoder", "SpeechSeq2Seq"],
    "superposition": ["ToyModel", "ToyModels"],
    "swin": ["Swin", "swin_b", "swin_l", "swin_s", "swin_t"],
    "swinv2": ["SwinV2", "swinv2_b", "swinv2_l", "swinv2_s", "swinv2_t"],
    "t5": ["T5"],
    "t5_sizes": [
        "t5_11b",
        "t5_3b",
        "t5_base",
        "t5_large",
        "t5_small",
        "t5_v1_1_base",
        "t5_v1_1_large",
        "t5_v1_1_small",
        "t5_v1_1_xl",
        "t5_v1_1_xxl",
    ],  # fmt: skip
    "timesformer": ["TimeSformer", "timesformer_b"],
    "transformer": ["Transformer", "transformer_base", "transformer_big"],
    "uniter": [
        "UNITER",
        "UNITERClassifier",
        "UNITERPreTraining",
        "uniter_base",
        "uniter_large",
    ],  # fmt: skip
    "vatt": ["VATT", "vatt_bbs", "vatt_lbs", "vatt_ma_medium", "vatt_mbs"],
    "video_mae": ["VideoMAE", "tube_masking", "video_mae_b", "video_mae_l", "video_mae_s"],
    "vilt": ["ViLT", "vilt_b_32"],
    "visual_bert": ["VisualBERT"],
    "vit": ["VisionTransformer"],
    "vit_sizes": [
        "vision_transformer",
        "vit_b_16",
        "vit_b_32",
        "vit_h_14",
        "vit_l_16",
        "vit_l_32",
        "vit_s_16",
        "vit_s_32",
        "vit_ti_16",
    ],  # fmt: skip
    "wav2vec2_conformer": ["Wav2Vec2Conformer"],
    "word2vec": ["CBOW", "HierarchicalSoftmax", "SkipGram"],
}
_WHERE = {name: file for file, names in _FILES.items() for name in names}

__all__ = list(_WHERE)


def __getattr__(name):
    if name in _WHERE:
        return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *_WHERE, *_FILES})
