import { geminiSchema, unknownMembers } from './find-members.ts'
import { unanswered, wrongEnd, wrongStart } from './find-order.ts'
import { brokenPictures, misnamedPictures, otherPictures } from './find-pictures.ts'
import { arraysWithoutItems, deadReferences, missingProperties, untypedSchemas } from './find-schema.ts'
import { emptyTexts } from './find-text.ts'
import type { Finding, Validator } from './rule.ts'
import { nameForm, uniqueTools, wellFormedTexts } from './shared-rules.ts'
import { isSigned, readSignature } from './signed.ts'
import { readGemini, type WireRequest } from './wire-request.ts'

const docs = 'https://ai.google.dev/gemini-api/docs'
const anySignature = 'skip_thought_signature_validator'

/** The first call of each step of the last turn needs a signature, in Gemini 3. */
function missingSignatures({ turns }: WireRequest): readonly Finding[] {
  const asked = turns.findLastIndex(
    ({ role, blocks }) => role === 'user' && blocks.some(({ kind }) => kind !== 'result'),
  )
  return turns.slice(asked + 1).flatMap(({ blocks }) => {
    const call = blocks.find((block) => block.kind === 'call')
    return call === undefined || call.signature !== undefined ? [] : [{ at: call.at, what: call.name }]
  })
}

/** Signatures of another provider, of another text, and of another place. */
function foreignSignatures({ turns }: WireRequest): readonly Finding[] {
  return turns.flatMap(({ blocks }) =>
    blocks.flatMap((block): Finding[] => {
      if (!('signature' in block) || block.signature === undefined) return []
      const { signature, at } = block
      if (signature === anySignature && block.kind === 'call') return []
      const isOwn =
        block.kind === 'call'
          ? readSignature(signature).signer === 'gemini'
          : isSigned('gemini', block.text.trim(), signature)
      return isOwn ? [] : [{ at, what: block.kind }]
    }),
  )
}

/** Signatures say of which part they are: the order is that of parts, with the index of this one. */
function movedSignatures({ turns }: WireRequest): readonly Finding[] {
  return turns.flatMap(({ blocks }) => {
    const calls = blocks.filter(({ kind }) => kind === 'call')
    return calls.flatMap((call): Finding[] => {
      if (call.kind !== 'call' || call.signature === undefined || call.signature === anySignature) return []
      return isSigned('gemini', JSON.stringify(call.input), call.signature)
        ? []
        : [{ at: call.at, what: call.name }]
    })
  })
}

/** Results are matched with calls by their names too. */
function misnamedResults({ turns }: WireRequest): readonly Finding[] {
  const names = new Map<string, string>()
  return turns.flatMap(({ blocks }) =>
    blocks.flatMap((block): Finding[] => {
      if (block.kind === 'call') names.set(block.id, block.name)
      if (block.kind !== 'result' || names.get(block.id) === block.name) return []
      return [{ at: block.at, what: block.name ?? '' }]
    }),
  )
}

export const gemini: Validator = {
  name: 'Gemini',
  read: readGemini,
  rules: [
    wellFormedTexts({
      source: `${docs}/troubleshooting`,
      says: ({ at }) => `Invalid value at '${at}' (TYPE_STRING): invalid UTF-8`,
    }),
    nameForm(/^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$/, {
      source: 'https://github.com/google-gemini/gemini-cli/issues/7878',
      says: ({ at }) =>
        `* GenerateContentRequest.${at}: Invalid function name. Must start with a letter or an underscore. Must be alphameric (a-z, A-Z, 0-9), underscores (_), dots (.) or dashes (-), with a maximum length of 64.`,
    }),
    uniqueTools({
      source: `${docs}/function-calling`,
      says: ({ what }) => `Duplicate function declaration found: ${what}`,
    }),
    {
      id: 'answered-calls',
      refuses: 'calls whose results are not the next message',
      source: 'https://github.com/google-gemini/gemini-cli/issues/4217',
      find: unanswered(false),
      says: () =>
        'Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.',
    },
    {
      id: 'result-names',
      refuses: 'results with another name than their call',
      source: `${docs}/function-calling`,
      find: misnamedResults,
      says: ({ at }) => `GenerateContentRequest.${at}.function_response.name: does not match its call`,
    },
    {
      id: 'first-role',
      refuses: 'a call or an answer at the beginning',
      source: `${docs}/function-calling`,
      find: wrongStart,
      says: () =>
        'Please ensure that function call turn comes immediately after a user turn or after a function response turn.',
    },
    {
      id: 'last-role',
      refuses: 'an answer at the end',
      source: `${docs}/text-generation`,
      find: wrongEnd,
      says: () => 'Please ensure that single turn requests end with a user role.',
    },
    {
      id: 'empty-text',
      refuses: 'parts without data',
      source: 'https://github.com/router-for-me/CLIProxyAPI/issues/1292',
      find: emptyTexts,
      says: ({ at }) =>
        `* GenerateContentRequest.${at}.data: required oneof field 'data' must have one initialized field`,
    },
    {
      id: 'missing-signature',
      refuses: 'calls without a signature in the current turn, in Gemini 3',
      source: `${docs}/thought-signatures`,
      find: missingSignatures,
      says: ({ at, what }) =>
        `Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly. Additional data, function call \`default_api:${what}\`, position ${at}.`,
    },
    {
      id: 'foreign-signature',
      refuses: 'signatures of others, and of another text',
      source: `${docs}/thought-signatures`,
      find: foreignSignatures,
      says: () => 'Thought signature is not valid',
    },
    {
      id: 'moved-signature',
      refuses: 'signatures at another call than their own',
      source: `${docs}/thought-signatures`,
      find: movedSignatures,
      says: () => 'Corrupted thought signature.',
    },
    {
      id: 'schema-type',
      refuses: 'schemas of tools that are not of the type object',
      source: `${docs}/function-calling`,
      find: untypedSchemas,
      says: ({ at }) => `* GenerateContentRequest.${at}: should be an object`,
    },
    {
      id: 'schema-items',
      refuses: 'arrays without items in a schema',
      source: `${docs}/structured-output#json_schema_support`,
      find: arraysWithoutItems,
      says: ({ at }) => `* GenerateContentRequest.${at}.items: missing field.`,
    },
    {
      id: 'schema-required',
      refuses: 'required members that are no properties',
      source: `${docs}/structured-output#json_schema_support`,
      find: missingProperties,
      says: ({ at }) => `* GenerateContentRequest.${at}[0]: property is not defined`,
    },
    {
      id: 'schema-references',
      refuses: 'references that lead nowhere',
      source: `${docs}/structured-output#json_schema_support`,
      find: deadReferences,
      says: ({ at, what }) => `* GenerateContentRequest.${at}: reference to undefined schema ${what}`,
    },
    {
      id: 'picture-format',
      refuses: 'pictures other than PNG, JPEG, GIF, WebP and HEIC',
      source: `${docs}/image-understanding#supported-formats`,
      find: otherPictures(['image/png', 'image/jpeg', 'image/webp', 'image/gif', 'image/heic']),
      says: ({ what }) => `Unsupported MIME type: ${what}`,
    },
    {
      id: 'picture-data',
      refuses: 'pictures that cannot be decoded',
      source: `${docs}/troubleshooting`,
      find: brokenPictures,
      says: () => 'Unable to process input image. Please retry or report in troubleshooting',
    },
    {
      id: 'picture-type',
      refuses: 'a declared type that is not that of the bytes',
      source: `${docs}/image-understanding`,
      find: misnamedPictures,
      says: () => 'Provided image is not valid.',
    },
    {
      id: 'members',
      refuses: 'members that the reference does not name',
      source: 'https://ai.google.dev/api/generate-content',
      find: unknownMembers(geminiSchema),
      says: ({ at }) => `Invalid JSON payload received. Unknown name "${at}": Cannot find field.`,
    },
  ],
}
