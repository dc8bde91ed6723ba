"""Encoder-decoders of torch's own layers: an LSTM with attention, and a transformer.

An encoder reads the whole source before a decoder writes the target, one symbol after another. Both
read the sequence that other controllers read, `<s> a1 ... ak ||| b1 ... bl`: the encoder as far as
`|||`, and the decoder from there on.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from stacktrans.memory import MemorySnapshot
from stacktrans.model.controllers import Controller
from stacktrans.settings.model_config import EncoderDecoderConfig, ModelConfig, TransformerConfig
from stacktrans.tasks.layout import SEPARATOR_ID

DecoderState = tuple[Tensor, ...]
"""The state of a decoder: tensors with B as their first dimension."""


class EncoderDecoderState(NamedTuple):
    """The state of B strings after t symbols.

    Attributes:
        ids: [B, t] the symbols read.
        lengths: [B] number of symbols of each source; 0 while it is being read.
        encoded: [B, S, W] the encoder's outputs, of which the first `lengths` are valid.
        decoder: the state of the decoder.
        attention: [B, S] the weights with which the last step read the encoder's outputs.
    """

    ids: Tensor
    lengths: Tensor
    encoded: Tensor
    decoder: DecoderState
    attention: Tensor

    def snapshot(self) -> MemorySnapshot:
        """What the first string attended to in the last step, as if it were read from a memory."""
        attention = _padded(self.attention[0], self.ids.shape[1])
        return MemorySnapshot(read_weights={"source": attention})


class EncoderDecoder(Controller):
    """An encoder and a decoder, in the place of layers that operate a memory.

    Args:
        config: of the model.
        width: size W of the encoder's outputs.
    """

    def __init__(self, config: ModelConfig, width: int) -> None:
        nn.Module.__init__(self)
        self.layers = nn.ModuleList()  # none that could be run step by step
        self.settings = cast(EncoderDecoderConfig, config.controller)
        self.hidden_size, self.width = self.settings.hidden_size, width
        self.dropout = nn.Dropout(self.settings.dropout)

    @property
    def like(self) -> Tensor:
        return next(self.parameters())

    @abstractmethod
    def encode(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """Encode sources [B, S, E], of `lengths` symbols each: [B, S, W]."""

    @abstractmethod
    def initial_decoder(self, batch_size: int) -> DecoderState:
        """The state of the decoder before the first symbol."""

    @abstractmethod
    def decode(
        self, embedded: Tensor, begins: Tensor, encoded: Tensor, padded: Tensor, state: DecoderState
    ) -> tuple[Tensor, Tensor, DecoderState]:
        """Decode the next U symbols.

        Args:
            embedded: [B, U, E].
            begins: [B, U] True at the separators; outputs before them are ignored.
            encoded: [B, S, W].
            padded: [B, S] True where the encoder's outputs are padding.
            state: of the decoder, before these symbols.

        Returns:
            Outputs [B, U, H], the attention of the last step [B, S], and the decoder's new state.
        """

    def initial(self, batch_size: int) -> EncoderDecoderState:
        """The state before the first symbol."""
        none = self.like.new_zeros(batch_size, 0)
        encoded = none.new_zeros(batch_size, 0, self.width)
        lengths = none.new_zeros(batch_size, dtype=torch.int64)
        decoder = self.initial_decoder(batch_size)
        return EncoderDecoderState(none.long(), lengths, encoded, decoder, none)

    def forward(self, embed: Callable[[Tensor], Tensor], ids: Tensor) -> Tensor:
        """Outputs over whole sequences [B, T], each with a separator: [B, T, H].

        Those before the separator are ignored.
        """
        starts, steps = (ids == SEPARATOR_ID).int().argmax(dim=1, keepdim=True), ids.shape[1]
        longest = int(starts.max()) + 1
        encoded = self.encode(self.dropout(embed(ids[:, :longest])), starts[:, 0] + 1)
        # The targets begin side by side.
        counted = torch.arange(steps, device=ids.device)
        indices = starts + counted[: steps - int(starts.min())]
        targets = ids.gather(1, indices.clamp(max=steps - 1))
        outputs, _, _ = self.decode(
            self.dropout(embed(targets)),
            targets == SEPARATOR_ID,
            encoded,
            counted[:longest] > starts,
            self.initial_decoder(len(ids)),
        )
        positions = (counted - starts).clamp(min=0).unsqueeze(2)
        return outputs.gather(1, positions.expand(-1, -1, self.hidden_size))

    def advance(
        self, embed: Callable[[Tensor], Tensor], ids: Tensor, state: EncoderDecoderState
    ) -> tuple[Tensor, EncoderDecoderState]:
        """Outputs after each of the next T symbols, [B, T, H], and the state after the last."""
        read, begins = torch.cat([state.ids, ids], dim=1), ids == SEPARATOR_ID
        lengths, encoded = state.lengths, state.encoded
        rows = begins.any(dim=1).nonzero()[:, 0]
        if len(rows):
            ends = begins[rows].int().argmax(dim=1) + state.ids.shape[1] + 1
            lengths, longest = lengths.index_copy(0, rows, ends), int(ends.max())
            new = self.encode(embed(read[rows, :longest]), ends)
            encoded = _padded(encoded.transpose(0, 1), longest).transpose(0, 1)
            encoded[rows, :longest] = new
        if not encoded.shape[1]:  # all are still read
            outputs = encoded.new_zeros(*ids.shape, self.hidden_size)
            return outputs, state._replace(ids=read)
        # A source not yet encoded has one output of zeros, so that attention has an input.
        positions = torch.arange(encoded.shape[1], device=ids.device)
        padding = positions >= lengths.clamp(min=1).unsqueeze(1)
        outputs, attention, kept = self.decode(embed(ids), begins, encoded, padding, state.decoder)
        return outputs, EncoderDecoderState(read, lengths, encoded, kept, attention)


def _padded(rows: Tensor, count: int) -> Tensor:
    """Rows [S, ...] with zeros after them, `count` in all unless S is larger."""
    further = max(0, count - len(rows))
    return torch.cat([rows, rows.new_zeros(further, *rows.shape[1:])])


class Attention(EncoderDecoder):
    """LSTMs with attention and input feeding (luong2015, sections 3.1 and 3.3)."""

    def __init__(self, config: ModelConfig, embedding_size: int) -> None:
        given = cast(EncoderDecoderConfig, config.controller)
        size, layers, bias = given.hidden_size, given.layers, given.biases
        super().__init__(config, 2 * size)
        between = given.dropout if layers > 1 else 0.0
        self.encoder = nn.LSTM(embedding_size, size, layers, bias, True, between, True)
        self.decoder = nn.LSTM(embedding_size + size, size, layers, bias, True, between)
        self.score = nn.Linear(size, 2 * size, bias=False)
        self.combine = nn.Linear(3 * size, size, bias=False)

    def encode(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(embedded, lengths.cpu(), True, enforce_sorted=False)
        outputs, _ = self.encoder(packed)
        return pad_packed_sequence(outputs, batch_first=True, total_length=embedded.shape[1])[0]

    def initial_decoder(self, batch_size: int) -> DecoderState:
        state = self.like.new_zeros(batch_size, self.settings.layers, self.hidden_size)
        return state, state, state[:, 0]

    def decode(
        self, embedded: Tensor, begins: Tensor, encoded: Tensor, padded: Tensor, state: DecoderState
    ) -> tuple[Tensor, Tensor, DecoderState]:
        hidden, cell, fed = state
        attentional = []
        for symbol, begin in zip(embedded.unbind(1), begins.unbind(1), strict=True):
            again = begin[:, None, None]  # the decoder restarts at the separator
            hidden, cell = (  # in one block each, as cuDNN requires
                part.masked_fill(again, 0).transpose(0, 1).contiguous() for part in (hidden, cell)
            )
            fed = fed.masked_fill(again[:, 0], 0)
            inputs = torch.cat([symbol, fed], 1).unsqueeze(1)
            outputs, (hidden, cell) = self.decoder(inputs, (hidden, cell))
            top = outputs[:, 0]
            hidden, cell = hidden.transpose(0, 1), cell.transpose(0, 1)
            scores = torch.bmm(encoded, self.score(top).unsqueeze(2))[:, :, 0]
            attention = torch.softmax(scores.masked_fill(padded, -torch.inf), dim=1)
            context = torch.bmm(attention.unsqueeze(1), encoded)[:, 0]
            fed = self.dropout(torch.tanh(self.combine(torch.cat([context, top], dim=1))))
            attentional.append(fed)
        return torch.stack(attentional, dim=1), attention, (hidden, cell, fed)


class Transformer(EncoderDecoder):
    """A transformer (vaswani2017) that normalizes the inputs of its sublayers."""

    def __init__(self, config: ModelConfig, embedding_size: int) -> None:
        given = cast(TransformerConfig, config.controller)
        size, layers, bias = given.hidden_size, given.layers, given.biases
        super().__init__(config, size)
        self.heads = given.heads
        shape = (size, given.heads, 4 * size, given.dropout)
        options: Any = {"batch_first": True, "norm_first": True, "bias": bias}
        encoders = (nn.TransformerEncoderLayer(*shape, **options) for _ in range(layers))
        decoders = (nn.TransformerDecoderLayer(*shape, **options) for _ in range(layers))
        self.enter = nn.Linear(embedding_size, size, bias)
        self.encoder, self.decoder = nn.ModuleList(encoders), nn.ModuleList(decoders)
        self.encoded, self.decoded = (nn.LayerNorm(size, bias=bias) for _ in range(2))

    def encode(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        positions = torch.arange(embedded.shape[1], device=embedded.device)
        outputs = self._entered(embedded, positions)
        padding = positions >= lengths.unsqueeze(1)
        for layer in self.encoder:
            outputs = layer(outputs, src_key_padding_mask=padding)
        return cast(Tensor, self.encoded(outputs))

    def _entered(self, embedded: Tensor, positions: Tensor) -> Tensor:
        """The input of the lowest layer: embeddings [..., E] at positions [...] -> [..., H]."""
        encoding = sinusoids(positions, self.hidden_size).to(embedded.dtype)
        return cast(Tensor, self.enter(embedded) + encoding)

    def initial_decoder(self, batch_size: int) -> DecoderState:
        like = self.like
        inputs = like.new_zeros(batch_size, 0, self.hidden_size)
        return (inputs[:, :, 0].bool(), *([inputs] * self.settings.layers))

    def decode(
        self, embedded: Tensor, begins: Tensor, encoded: Tensor, padded: Tensor, state: DecoderState
    ) -> tuple[Tensor, Tensor, DecoderState]:
        begun, *inputs = state
        first, steps = begun.shape[1], begins.shape[1]
        begun = torch.cat([begun, begins.cumsum(1).bool() | begun[:, -1:].any(1, True)], dim=1)
        positions = (begun.cumsum(1) - 1).clamp(min=0)[:, first:]
        outputs = self._entered(embedded, positions)
        # A step sees those before it from the separator on, and itself.
        own = torch.arange(first, first + steps, device=begun.device).unsqueeze(1)
        all_steps = torch.arange(first + steps, device=begun.device)
        masked = ~(begun.unsqueeze(1) & (all_steps < own) | (all_steps == own))
        masked = masked.repeat_interleave(self.heads, dim=0)
        kept = [begun]
        layers: Any = self.decoder
        for layer, known in zip(layers, inputs, strict=True):
            new = layer.norm1(outputs)
            seen = torch.cat([known, new], dim=1)
            read, _ = layer.self_attn(new, seen, seen, attn_mask=masked, need_weights=False)
            outputs = outputs + layer.dropout1(read)
            read, attention = layer.multihead_attn(
                layer.norm2(outputs), encoded, encoded, key_padding_mask=padded
            )
            outputs = outputs + layer.dropout2(read)
            inner = layer.activation(layer.linear1(layer.norm3(outputs)))
            outputs = outputs + layer.dropout3(layer.linear2(layer.dropout(inner)))
            kept.append(seen)
        return self.decoded(outputs), attention[:, -1], tuple(kept)


def sinusoids(positions: Tensor, size: int) -> Tensor:
    """The encoding of positions [...], from 0 (vaswani2017, section 3.5): [..., size]."""
    rates = 10_000 ** -(torch.arange(0, size, 2, device=positions.device) / size)
    angles = positions.unsqueeze(-1) * rates
    return torch.cat([angles.sin(), angles.cos()], dim=-1)[..., :size]
