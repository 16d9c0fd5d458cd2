"""Iterations of training, as one program: a batch, the encoder's estimate, a step of Adam.

One iteration takes the next batch of a shuffled epoch, binarises it anew (a pixel is 1 with its grey level as
probability), and lets Adam climb the encoder's estimate. It depends on the state alone.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from ..tuning.adam import Adam
from .architectures import architecture
from .decoders import Decoder
from .ergodic_encoder import carried
from .joint import Parameters
from .training_settings import Recipe

_CHAIN = ("transitions", "log_step", "log_scale")
"""Parameters that learn at the chain's rate."""
Measured = dict[str, Float[Array, ""]]
"""What iterations measure, by name; ``objective`` among them."""

_ORDER_KEY, _NOISE_KEY = 0, 1


class State(NamedTuple):
    """All that one iteration needs and changes."""

    decoder: Decoder
    parameters: Parameters
    adam: optax.OptState
    """Adam's moments of the decoder and the parameters."""
    order: Int[Array, "images"]
    """The order of images in this epoch."""
    iteration: Int[Array, ""]
    key: Array
    """The run's key; every iteration's keys come from it and from the iteration."""


def begin_training(shape: tuple[int, ...], recipe: Recipe, key: Array) -> State:
    """Random weights, for the first stage; ``shape`` is that of the images."""
    count, networks = shape[0], architecture(shape[1])
    decoder_key, encoder_key, run_key = jax.random.split(key, 3)
    decoder = networks.decoder(decoder_key)
    parameters = recipe.stages[0].encoder.init(networks, encoder_key)
    order = jnp.arange(count, dtype=jnp.int32)
    adam = Adam().init((decoder, parameters))
    return State(decoder, parameters, adam, order, jnp.zeros((), jnp.int32), jax.random.key_data(run_key))


def carry(pixels: int, recipe: Recipe, stage: int, state: State) -> State:
    """The state with which a stage begins: parameters it shares with the one before are kept, Adam begins anew."""
    key = jax.random.fold_in(jax.random.wrap_key_data(state.key), 2 + stage)
    fresh, old = recipe.stages[stage].encoder.init(architecture(pixels), key), state.parameters
    kept = {name: value for name, value in old.items() if name in fresh}
    parameters = cast(Parameters, {**fresh, **kept})
    if "transitions" in kept:
        parameters["transitions"] = carried(fresh["transitions"], old["transitions"])
    return state._replace(parameters=parameters, adam=Adam().init((state.decoder, parameters)))


def _scaled(recipe: Recipe, direction: tuple[Decoder, Parameters]) -> tuple[Decoder, Parameters]:
    """Adam's direction times the learning rate: one rate for networks, one for chains."""
    decoder, parameters = direction
    networks, chain = recipe.learning_rate, recipe.chain_rate
    scaled = {
        name: jax.tree.map(lambda u, name=name: u * (chain if name in _CHAIN else networks), value)
        for name, value in parameters.items()
    }
    return jax.tree.map(lambda u: u * networks, decoder), cast(Parameters, scaled)


def advance_training(
    recipe: Recipe, stage: int, images: Float[Array, "images pixels"], state: State, count: Int[Array, ""]
) -> tuple[State, Measured]:
    """``count`` iterations of a stage; returns the state, and averages of what the iterations measured."""
    encoder = recipe.stages[stage].encoder
    epoch = images.shape[0] // recipe.batch

    def iterate(state: State) -> tuple[State, Measured]:
        key = jax.random.wrap_key_data(state.key)
        at = state.iteration % epoch
        order_key = jax.random.fold_in(jax.random.fold_in(key, _ORDER_KEY), state.iteration // epoch)
        order = jax.lax.cond(
            at == 0, lambda order: jax.random.permutation(order_key, order.shape[0]), lambda order: order, state.order
        )
        pixel_key, estimate_key = jax.random.split(
            jax.random.fold_in(jax.random.fold_in(key, _NOISE_KEY), state.iteration)
        )
        rows = jax.lax.dynamic_slice_in_dim(order, at * recipe.batch, recipe.batch)
        grey = images[rows]
        y = jax.random.bernoulli(pixel_key, grey).astype(grey.dtype)
        along = encoder.estimate(state.decoder, state.parameters, y, estimate_key)
        direction, moments = Adam().step((along.decoder, along.parameters), state.adam)
        decoder, parameters = optax.apply_updates((state.decoder, state.parameters), _scaled(recipe, direction))
        return State(decoder, parameters, moments, order, state.iteration + 1, state.key), along.row

    def step(_: Int[Array, ""], carry: tuple[State, Measured]) -> tuple[State, Measured]:
        state, row = iterate(carry[0])
        return state, jax.tree.map(jnp.add, carry[1], row)

    shapes = jax.eval_shape(iterate, state)[1]
    nothing = {name: jnp.zeros(value.shape, value.dtype) for name, value in shapes.items()}
    state, total = jax.lax.fori_loop(0, count, step, (state, nothing))
    row = {name: value / count.astype(value.dtype) for name, value in total.items()}
    leaves = jax.tree.leaves((state.decoder, state.parameters))
    row["finite"] = jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in (*leaves, row["objective"])]))
    return state, row
