"""Batches for the architectures: tokens, images, sound and series, with labels."""

import contextlib
import dataclasses

import torch

VOCABULARY = 99
LENGTH = 12
BATCH = 2


@dataclasses.dataclass
class Size:
    """Of the batches that the functions below make."""

    batch: int = BATCH
    length: int = LENGTH


_size = Size()


@contextlib.contextmanager
def of_size(batch, length):
    _size.batch, _size.length = batch, length
    try:
        yield
    finally:
        _size.batch, _size.length = BATCH, LENGTH


def token_ids(generator, length=None, lowest=5):
    return torch.randint(lowest, VOCABULARY, (_size.batch, length or _size.length), generator=generator)


def padding():
    """The second sequence is shorter."""
    mask = torch.ones(_size.batch, _size.length, dtype=torch.long)
    mask[1:2, max(_size.length - 3, 1) :] = 0
    return mask


def language(config, generator):
    """A batch for the next or a masked token, padded on the right."""
    ids, mask = token_ids(generator), padding()
    labels = token_ids(generator).masked_fill(mask == 0, -100)
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def language_without_mask(config, generator):
    return {"input_ids": token_ids(generator), "labels": token_ids(generator)}


def sequence_class(config, generator):
    labels = torch.randint(0, config.num_labels, (_size.batch,), generator=generator)
    return {"input_ids": token_ids(generator), "attention_mask": padding(), "labels": labels}


def token_class(config, generator):
    labels = torch.randint(0, config.num_labels, (_size.batch, _size.length), generator=generator)
    return {"input_ids": token_ids(generator), "attention_mask": padding(), "labels": labels}


def answer_span(config, generator):
    starts, ends = torch.randint(0, _size.length, (2, _size.batch), generator=generator)
    return {
        "input_ids": token_ids(generator),
        "attention_mask": padding(),
        "start_positions": starts,
        "end_positions": ends,
    }


def encoder_decoder(config, generator):
    labels = token_ids(generator, 7)
    return {"input_ids": token_ids(generator), "attention_mask": padding(), "labels": labels}


def random_image(config, generator, size=None):
    size = size or config.image_size
    return torch.randn(_size.batch, config.num_channels, size, size, generator=generator)


def image_class(config, generator, size=None):
    labels = torch.randint(0, config.num_labels, (_size.batch,), generator=generator)
    return {"pixel_values": random_image(config, generator, size), "labels": labels}


def image(config, generator, size=None):
    return {"pixel_values": random_image(config, generator, size)}


def image_segments(config, generator, size):
    labels = torch.randint(0, config.num_labels, (_size.batch, size, size), generator=generator)
    return {"pixel_values": random_image(config, generator, size), "labels": labels}


def image_and_text(config, generator):
    return {
        "input_ids": token_ids(generator),
        "attention_mask": padding(),
        "pixel_values": random_image(config.vision_config, generator),
        "return_loss": True,
    }


def image_and_caption(config, generator):
    ids = token_ids(generator)
    return {
        "input_ids": ids,
        "attention_mask": padding(),
        "pixel_values": random_image(config.vision_config, generator),
        "labels": ids,
    }


def masked_image(config, generator):
    patches = (config.image_size // config.patch_size) ** 2
    masked = torch.rand(_size.batch, patches, generator=generator) < 0.5
    return {"pixel_values": random_image(config, generator), "bool_masked_pos": masked}


def audio_class(config, generator, length=400):
    labels = torch.randint(0, config.num_labels, (_size.batch,), generator=generator)
    return {"input_values": torch.randn(_size.batch, length, generator=generator), "labels": labels}


def spectrogram_to_text(config, generator):
    frames = 2 * config.max_source_positions
    features = torch.randn(_size.batch, config.num_mel_bins, frames, generator=generator)
    return {"input_features": features, "labels": token_ids(generator, 7)}


def spectrogram_class(config, generator):
    frames = torch.randn(_size.batch, config.max_length, config.num_mel_bins, generator=generator)
    return {"input_values": frames, "labels": torch.randint(0, config.num_labels, (_size.batch,), generator=generator)}


def video_class(config, generator):
    shape = (_size.batch, config.num_frames, config.num_channels, config.image_size, config.image_size)
    labels = torch.randint(0, config.num_labels, (_size.batch,), generator=generator)
    return {"pixel_values": torch.randn(shape, generator=generator), "labels": labels}


def series(config, generator):
    length = config.context_length + max(config.lags_sequence)
    return {
        "past_values": torch.randn(_size.batch, length, generator=generator),
        "past_time_features": torch.randn(_size.batch, length, config.num_time_features, generator=generator),
        "past_observed_mask": torch.ones(_size.batch, length),
        "future_values": torch.randn(_size.batch, config.prediction_length, generator=generator),
        "future_time_features": torch.randn(
            _size.batch, config.prediction_length, config.num_time_features, generator=generator
        ),
    }


def patches_of_series(config, generator):
    def values(length):
        return torch.randn(_size.batch, length, config.num_input_channels, generator=generator)

    return {"past_values": values(config.context_length), "future_values": values(config.prediction_length)}


TEXT = (language, language_without_mask, sequence_class, token_class, answer_span, encoder_decoder)


def image_question(config, generator):
    return {
        "input_ids": token_ids(generator),
        "attention_mask": padding(),
        "pixel_values": random_image(config, generator),
        "labels": torch.rand(_size.batch, config.num_labels, generator=generator),
    }
