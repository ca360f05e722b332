"""The messages of a Messages request as a Conversation has them.

Promises: the official order of messages, texts and errors (spec/recipe.md 5). Under the local policy nothing has to be
in its place: calls and results are taken as they come, and V4 too is told of tools where they become known, in the
words that it has for system messages. Reasoning is None where the request has none: see missing_reasoning.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from whitedwarf.conversation.content import Content, is_empty
from whitedwarf.conversation.message import Message, SystemMessage, ToolMessage, UserMessage
from whitedwarf.conversation.tools import ToolCall, ToolDefinition
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.json_style import FloatStyle, dumps
from whitedwarf.protocol.anthropic.answer_in_history import EarlierAnswer
from whitedwarf.protocol.anthropic.blocks import (
    Block,
    ResultPart,
    ServerToolBlock,
    TextBlock,
    ThinkingBlock,
    ToolAddition,
    ToolReference,
    ToolResultBlock,
    ToolUseBlock,
)
from whitedwarf.protocol.anthropic.pieces import Piece, Place, Showable, assembled, piece_of
from whitedwarf.protocol.anthropic.placement import Placement, misplaced_call
from whitedwarf.protocol.anthropic.reminder import reminder
from whitedwarf.protocol.anthropic.request import RequestMessage
from whitedwarf.protocol.anthropic.tools import Toolbox
from whitedwarf.protocol.failures import RefusedRequest
from whitedwarf.protocol.image_parts import UNSUPPORTED_IMAGE
from whitedwarf.protocol.notes import Notes, shortened
from whitedwarf.protocol.policy import Policy


@dataclass(frozen=True, slots=True)
class Setting:
    """What the reading of messages depends on."""

    version: ModelVersion
    policy: Policy
    toolbox: Toolbox
    notes: Notes


def read_messages(requests: Sequence[RequestMessage], setting: Setting) -> list[Message]:
    """All messages in order; RefusedRequest at the first mistake."""
    reader = _Reader(setting)
    for index, request in enumerate(requests):
        reader.read(index, request)
    return reader.finished()


class _Reader:
    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._is_official = setting.policy.is_official
        self._placement = Placement(setting.policy)
        self._messages: list[Message] = []
        self._open_calls: dict[str, None] = {}  # ids without a result yet, in order
        self._index = 0

    def read(self, index: int, request: RequestMessage) -> None:
        self._index = index
        if not self._is_official:
            self._read_blocks(request)
            return
        self._placement.begin(index, request.role, request.blocks)
        self._read_blocks(request)
        self._placement.end()

    def finished(self) -> list[Message]:
        if self._is_official:
            self._placement.finish()
        return self._messages

    def _read_blocks(self, request: RequestMessage) -> None:
        match request.role:
            case "user":
                self._user(request.blocks)
            case "assistant":
                self._assistant(request.blocks)
            case _:
                self._system(request.blocks)

    def _check(self, position: int, block: Block) -> None:
        if self._is_official:
            self._placement.check(position, block)

    def _user(self, blocks: tuple[Block, ...]) -> None:
        """Each block is a message of its own; tools that results refer to are told of after all of them."""
        brought: list[ToolDefinition] = []
        if not blocks:
            self._messages.append(UserMessage(""))
        for position, block in enumerate(blocks):
            self._check(position, block)
            match block:
                case ToolResultBlock():
                    brought += self._result(position, block)
                case ToolAddition(reference):
                    brought += self._added(position, reference)
                case ToolUseBlock():
                    raise misplaced_call(self._index)
                case ThinkingBlock() | ServerToolBlock():
                    self._setting.notes.warn("Thinking outside of assistant messages was left out.")
                case _:
                    self._messages.append(UserMessage(assembled([self._shown(position, block)])))
        if brought:
            self._tell("", brought)

    def _assistant(self, blocks: tuple[Block, ...]) -> None:
        answer = EarlierAnswer()
        for position, block in enumerate(blocks):
            self._check(position, block)
            match block:
                case ThinkingBlock(thinking):
                    answer.thoughts.append(thinking)
                case ToolUseBlock(call_id, name, arguments):
                    answer.calls.append(ToolCall(call_id, name, dumps(arguments, FloatStyle.V4)))
                    self._open_calls[call_id] = None
                case ToolResultBlock():  # only locally: the tool was run within the answer, which goes on after it
                    self._messages.append(answer.message())
                    self._tell("", self._result(position, block))
                    answer = EarlierAnswer(is_continued=True)
                case ToolAddition() | ServerToolBlock():
                    pass
                case _:
                    answer.say(self._said(position, block))
        if answer.has_content:
            self._messages.append(answer.message())

    def _system(self, blocks: tuple[Block, ...]) -> None:
        pieces: list[Piece] = []
        brought: list[ToolDefinition] = []
        for position, block in enumerate(blocks):
            self._check(position, block)
            match block:
                case ToolAddition(reference):
                    brought += self._added(position, reference)
                case ToolResultBlock():
                    brought += self._result(position, block)
                case ToolUseBlock():
                    raise misplaced_call(self._index)
                case ThinkingBlock() | ServerToolBlock():
                    self._setting.notes.warn("Thinking outside of assistant messages was left out.")
                case _:
                    place = Place(f"messages.{self._index}", f"messages.{self._index}.content[{position}]")
                    pieces.append(self._piece(block, place))
        self._tell(assembled(pieces), brought)

    def _tell(self, content: Content, brought: Sequence[ToolDefinition]) -> None:
        """A system message at this place, with the tools that become known by it, as far as they are kept."""
        kept = tuple(filter(self._setting.toolbox.keeps, brought))
        if self._setting.version is ModelVersion.V4:
            self._messages += reminder(content, () if self._is_official else kept)
        elif kept or not brought or not is_empty(content):
            self._messages.append(SystemMessage(content, kept if brought else None))

    def _result(self, position: int, block: ToolResultBlock) -> list[ToolDefinition]:
        """Adds the result, and gives the tools that it refers to: they are looked up before anything is shown."""
        place = f"messages.{self._index}.content.{position}"
        otherwise = f"{place}: tool reference '{{}}' not found in available tools"
        references = [part for part in block.parts if isinstance(part, ToolReference)]
        brought = [tool for reference in references for tool in self._found(reference, otherwise)]
        path = f"{place}.tool_result"
        pieces = [self._part(part, path, number) for number, part in enumerate(block.parts)]
        self._messages.append(ToolMessage(assembled(pieces), self._answered(block.tool_use_id)))
        return brought

    def _part(self, part: ResultPart, path: str, number: int) -> Piece:
        match part:
            case TextBlock():  # most of them
                return part.text
            case ToolReference():
                return part.name
            case _:
                return self._piece(part, Place(path, f"{path}.content[{number}]"))

    def _answered(self, call_id: str | None) -> str | None:
        """The id of the call that has its result now; without one, the first open call is meant."""
        answered = next(iter(self._open_calls), None) if call_id is None else call_id
        if answered is not None:
            self._open_calls.pop(answered, None)
        return answered

    def _added(self, position: int, reference: ToolReference) -> list[ToolDefinition]:
        place = f"messages.{self._index}.content.{position}"
        return self._found(reference, f"{place}: `tool_addition` references unknown tool '{{}}'")

    def _found(self, reference: ToolReference, otherwise: str) -> list[ToolDefinition]:
        """The tool referred to; an unknown one is refused officially, and none locally."""
        tool = self._setting.toolbox.find(reference.name)
        if tool is not None:
            return [tool]
        if self._is_official:
            raise RefusedRequest(otherwise.format(reference.name))
        self._setting.notes.warn(f"The tool {shortened(reference.name)} is referred to but not declared.")
        return []

    def _shown(self, position: int, block: Showable) -> Piece:
        if isinstance(block, TextBlock):  # most of them
            return block.text
        place = f"messages.{self._index}.content[{position}]"
        return self._piece(block, Place(place, place))

    def _said(self, position: int, block: Showable) -> str:
        """What a block adds to the model's own words: an image cannot be among them."""
        piece = self._shown(position, block)
        if isinstance(piece, str):
            return piece
        if self._is_official:
            raise RefusedRequest("Image in assistant message is unsupported")
        self._setting.notes.warn("Images in assistant messages were left out.")
        return UNSUPPORTED_IMAGE

    def _piece(self, block: Showable, place: Place) -> Piece:
        return piece_of(block, place, self._setting.version, self._setting.policy)
