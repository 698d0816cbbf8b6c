"""The catalog, as both families of SDK read it."""

import anthropic
import openai
import pytest

import catalog

pytestmark = pytest.mark.gateway


def test_openai_lists_the_catalog(openai_client):
    models = openai_client.models.list().data
    ids = [model.id for model in models]
    served = {"auto", *catalog.RECOMMENDED, *catalog.MESSAGES, *catalog.RESPONSES, *catalog.CHAT}
    assert served <= set(ids), served - set(ids)
    assert len(ids) == len(set(ids))
    assert {model.object for model in models} == {"model"}
    assert all(model.created > 0 and model.owned_by for model in models)


def test_anthropic_lists_the_same_catalog(openai_client, anthropic_client):
    models = list(anthropic_client.models.list())
    assert [model.id for model in models] == [model.id for model in openai_client.models.list()]
    assert {model.type for model in models} == {"model"}
    assert all(model.display_name and model.created_at.year >= 2020 for model in models)


def test_paging_through_the_catalog_shows_each_model_once_in_order(anthropic_client):
    everything = [model.id for model in anthropic_client.models.list()]
    first = anthropic_client.models.list(limit=7)
    assert (len(first.data), first.has_more) == (7, True)
    assert (first.first_id, first.last_id) == (everything[0], everything[6])
    assert [model.id for model in first] == everything
    before = anthropic_client.models.list(limit=3, before_id=everything[7])
    assert [model.id for model in before.data] == everything[4:7]


def test_a_model_says_what_it_can(openai_client):
    recommended = {model.id for model in openai_client.models.list() if model.to_dict()["recommended"]}
    assert recommended == catalog.RECOMMENDED
    gamma = openai_client.models.retrieve("gamma-4.3").to_dict()
    assert gamma["reasoning_mode"] == "adaptive"
    assert gamma["context_window"] == 1_000_000
    assert gamma["family"] == gamma["owned_by"]


@pytest.mark.parametrize("model", ["auto", "alpha-sonnet-5", "beta-5.6-terra", "gamma-4.20-0309-non-reasoning"])
def test_a_model_is_found_by_its_name(openai_client, anthropic_client, model):
    assert openai_client.models.retrieve(model).id == model
    assert anthropic_client.models.retrieve(model).id == model


@pytest.mark.parametrize(("dotted", "model"), catalog.DOTTED.items())
def test_an_older_dotted_name_finds_its_model(openai_client, dotted, model):
    assert openai_client.models.retrieve(dotted).id == model


def test_a_model_that_is_not_there_is_not_found(openai_client, anthropic_client):
    with pytest.raises(openai.NotFoundError) as fault:
        openai_client.models.retrieve("no-such-model")
    assert fault.value.code == "invalid_model"
    with pytest.raises(anthropic.NotFoundError) as fault:
        anthropic_client.models.retrieve("no-such-model")
    assert fault.value.type == "not_found_error"
