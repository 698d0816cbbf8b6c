"""Embeddings through the official SDK, which packs the numbers by default."""

import openai
import pytest

pytestmark = pytest.mark.gateway

MODEL = "beta-5.6-terra"


@pytest.fixture
def unchecked(target):
    """A client that does not check types: packed numbers fail its own check before it unpacks them."""
    return target.openai(_strict_response_validation=False)


def test_packed_and_plain_vectors_are_the_same(unchecked, openai_client):
    texts = ["red apples", "green apples"]
    packed = unchecked.embeddings.create(model=MODEL, input=texts, dimensions=16)
    plain = openai_client.embeddings.create(model=MODEL, input=texts, dimensions=16, encoding_format="float")
    assert [len(vector.embedding) for vector in packed.data] == [16, 16]
    for one, other in zip(packed.data, plain.data):
        assert one.embedding == pytest.approx(other.embedding, abs=1e-6)
    assert packed.usage.prompt_tokens == packed.usage.total_tokens == 4


def test_tokens_can_stand_for_texts(unchecked):
    answer = unchecked.embeddings.create(model=MODEL, input=[[1, 2, 3], [4]])
    assert (len(answer.data), answer.usage.prompt_tokens) == (2, 4)


def test_a_request_without_texts_names_the_field(openai_client):
    with pytest.raises(openai.BadRequestError) as fault:
        openai_client.embeddings.create(model=MODEL, input=[])
    assert (fault.value.code, fault.value.param) == ("invalid_request", "input")
