"""Registers a tool in the program, in a module that no server can import."""

from openhands.sdk import Action, Observation, ToolDefinition
from openhands.sdk.tool import register_tool


class MapGhostAction(Action):
    text: str


class MapGhostObservation(Observation):
    pass


class MapGhostTool(ToolDefinition[MapGhostAction, MapGhostObservation]):
    name = "map_ghost"

    @classmethod
    def create(cls, conv_state, **params):
        return [cls(description="Not there.", action_type=MapGhostAction, observation_type=MapGhostObservation)]


register_tool("map_ghost", MapGhostTool)
