"""Asks a server by clients of OpenAI's interface, and prints what each of them got as JSON.

Arguments: the base URL, the key, and the models that call a tool, say a text, finish by a schema, call a function.
"""

import asyncio
import json
import sys

from pydantic import BaseModel

base_url, key, tool_model, text_model, schema_model, function_model = sys.argv[1:7]


class Place(BaseModel):
    """Where it is."""

    place: str


def get_weather(place: str) -> str:
    """The weather at a place."""
    return "heavy rain in " + place


parameters = {
    "type": "object",
    "properties": {"place": {"type": "string"}},
    "required": ["place"],
    "additionalProperties": False,
}
chat_tool = {"type": "function", "function": {"name": "get_weather", "parameters": parameters}}
question = [{"role": "user", "content": "Weather?"}]


def by_openai():
    import openai

    client = openai.OpenAI(base_url=base_url, api_key=key, max_retries=0)
    with client.responses.stream(model=text_model, input="Hi.") as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
    parsed = client.responses.parse(model=schema_model, input="Where?", text_format=Place).output_parsed
    chat = client.chat.completions.parse(model=schema_model, messages=question, response_format=Place)
    return [text, parsed.place, chat.choices[0].message.parsed.place]


def by_litellm():
    import litellm

    where = {"api_base": base_url, "api_key": key, "num_retries": 0}
    model = "openai/" + tool_model
    first = litellm.completion(model=model, messages=question, tools=[chat_tool], **where)
    message = first.choices[0].message
    call = message.tool_calls[0]
    result = {"role": "tool", "tool_call_id": call.id, "content": get_weather(**json.loads(call.function.arguments))}
    history = [*question, message.model_dump(), result]
    second = litellm.completion(model=model, messages=history, tools=[chat_tool], **where)
    streamed = litellm.completion(model="openai/" + text_model, messages=question, stream=True, **where)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in streamed)
    response = litellm.responses(model="openai/" + text_model, input="Hi.", **where)
    return [second.choices[0].message.content, text, response.output[0].content[0].text]


def by_langchain():
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_openai import ChatOpenAI

    got = []
    for use_responses in (False, True):
        common = {"base_url": base_url, "api_key": key, "max_retries": 0, "use_responses_api": use_responses}
        llm = ChatOpenAI(model=tool_model, **common).bind_tools([get_weather])
        history = [HumanMessage("Weather?")]
        answer = llm.invoke(history)
        call = answer.tool_calls[0]
        history += [answer, ToolMessage(get_weather(**call["args"]), tool_call_id=call["id"])]
        got.append(llm.invoke(history).text)
        chunks = ChatOpenAI(model=text_model, **common).stream("Hi.")
        got.append("".join(chunk.text for chunk in chunks))
        structured = ChatOpenAI(model=schema_model, **common).with_structured_output(Place, method="json_schema")
        got.append(structured.invoke("Where?").place)
    return got


def by_instructor():
    import instructor
    import openai

    client = openai.OpenAI(base_url=base_url, api_key=key, max_retries=0)
    models = {
        "TOOLS": function_model,
        "TOOLS_STRICT": function_model,
        "RESPONSES_TOOLS": function_model,
        "JSON": schema_model,
        "JSON_SCHEMA": schema_model,
        "MD_JSON": text_model + "_json",
    }
    got = {}
    for name, model in models.items():
        patched = instructor.from_openai(client, mode=getattr(instructor.Mode, name))
        answer = patched.chat.completions.create(
            model=model, messages=question, response_model=Place, max_retries=0
        )
        got[name] = answer.place
    return got


async def by_agents():
    from agents import Agent, Runner, function_tool, set_tracing_disabled
    from agents.models.openai_chatcompletions import OpenAIChatCompletionsModel
    from agents.models.openai_responses import OpenAIResponsesModel
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0)
    got = []
    for model in (OpenAIChatCompletionsModel, OpenAIResponsesModel):
        agent = Agent(
            name="a", model=model(model=tool_model, openai_client=client), tools=[function_tool(get_weather)]
        )
        got.append((await Runner.run(agent, "Weather?")).final_output)
        streamed = Runner.run_streamed(agent, "Weather?")
        async for _ in streamed.stream_events():
            pass
        got.append(streamed.final_output)
    return got


async def ignore(_, events):
    async for _event in events:
        pass


async def by_pydantic_ai():
    from openai import AsyncOpenAI
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    client = AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0)
    provider = OpenAIProvider(openai_client=client)
    got = []
    for model in (OpenAIChatModel, OpenAIResponsesModel):
        agent = Agent(model(tool_model, provider=provider), tools=[get_weather])
        got.append((await agent.run("Weather?")).output)
        # `run_stream` takes the first text for the answer.
        got.append((await agent.run("Weather?", event_stream_handler=ignore)).output)
    return got


def attempt(run):
    try:
        return asyncio.run(run()) if asyncio.iscoroutinefunction(run) else run()
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:600]


clients = [by_openai, by_litellm, by_langchain, by_instructor, by_agents, by_pydantic_ai]
print(json.dumps({run.__name__: attempt(run) for run in clients}))
