import { anthropic, bedrock, type CaseRow, google, openai, vllm } from './refusal-answers.ts'
import { pictures } from './refused-history.ts'

export const pictureCases: readonly CaseRow[] = [
  // Pictures
  [
    'OpenAI, a picture',
    'chat',
    pictures.second,
    () =>
      openai(
        "You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png', 'jpeg', 'gif', 'webp'].",
        null,
        'invalid_image_format',
      ),
    'messages.5.content.1',
  ],
  [
    'OpenAI, an older picture by its place',
    'chat',
    pictures.first,
    ({ brackets }) =>
      openai(
        `Invalid '${brackets}'. Expected a valid URL, but got a value with an invalid format.`,
        'messages[1].content[1].image_url.url',
      ),
    'messages.1.content.1',
  ],
  [
    'OpenAI Responses, a picture',
    'responses',
    pictures.second,
    ({ brackets }) =>
      openai('The image data you provided does not represent a valid image.', brackets, 'image_parse_error'),
    'input.7.output.1',
  ],
  [
    'Anthropic, size of a picture',
    'anthropic',
    pictures.first,
    () =>
      anthropic(
        'messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes',
      ),
    'messages.0.content.1',
  ],
  [
    'Anthropic, a picture in a result',
    'anthropic',
    pictures.second,
    () =>
      anthropic(
        'messages.2.content.1.tool_result.content.1.image.source.base64.data: At least one of the image dimensions exceed max allowed size: 8000 pixels',
      ),
    'messages.2.content.1.content.1',
  ],
  [
    'Anthropic, a picture without a place',
    'anthropic',
    pictures.second,
    () => anthropic('Could not process image'),
    'messages.2.content.1.content.1',
  ],
  [
    'Anthropic, too large a request',
    'anthropic',
    pictures.second,
    () => anthropic('Request exceeds the maximum size', 413, 'request_too_large'),
    'messages.2.content.1.content.1',
  ],
  [
    'Gemini, a picture',
    'google',
    pictures.second,
    () =>
      google(
        'Unable to process input image. Please retry or report in https://developers.generativeai.google/guide/troubleshooting',
      ),
    'contents.2.parts.2',
  ],
  [
    'Gemini, base64',
    'google',
    pictures.first,
    () =>
      google(
        'Invalid value at \'contents[0].parts[1].inline_data.data\' (TYPE_BYTES), Base64 decoding failed for "%"',
      ),
    'contents.0.parts.1',
  ],
  [
    'Bedrock, no pictures',
    'bedrock',
    '"image"',
    () =>
      bedrock(
        "This model doesn't support the image content block that you provided. Remove it and try again.",
      ),
    'messages.0.content.1',
    'messages.2.content.1.toolResult.content.1',
  ],
  [
    'Mistral, no pictures',
    'compatible',
    'image_url',
    () => [
      400,
      {
        object: 'error',
        message: 'Image input is not enabled for this model',
        type: 'invalid_request_invalid_args',
        code: '3051',
      },
    ],
    'messages.1.content.1',
    'messages.5.content.1',
  ],
  [
    'DeepSeek, no pictures',
    'compatible',
    'image_url',
    () => [
      422,
      'Failed to deserialize the JSON body into the target type: messages[1]: unknown variant `image_url`, expected `text` at line 1 column 150',
    ],
    'messages.1.content.1',
    'messages.5.content.1',
  ],
  [
    'vLLM, no pictures',
    'compatible',
    'image_url',
    () => vllm('/models/m is not a multimodal model'),
    'messages.1.content.1',
    'messages.5.content.1',
  ],
  [
    'vLLM, one picture',
    'compatible',
    pictures.first,
    () => vllm('Failed to load image: broken data stream when reading image file'),
    'messages.1.content.1',
  ],
  [
    'llama.cpp, no pictures',
    'compatible',
    'image_url',
    () => [
      500,
      {
        error: {
          code: 500,
          message:
            'image input is not supported - hint: if this is unexpected, you may need to provide the mmproj',
          type: 'server_error',
        },
      },
    ],
    'messages.1.content.1',
    'messages.5.content.1',
  ],
  [
    'Ollama, no pictures',
    'compatible',
    'image_url',
    () => [
      500,
      {
        error: {
          message: 'this model is missing data required for image input',
          type: 'api_error',
          param: null,
          code: null,
        },
      },
    ],
    'messages.1.content.1',
    'messages.5.content.1',
  ],
  [
    'LM Studio, no pictures',
    'compatible',
    'image_url',
    () => [400, { error: 'Vision add-on is not loaded, but images were provided for processing' }],
    'messages.1.content.1',
    'messages.5.content.1',
  ],
  [
    'xAI, a picture',
    'compatible',
    pictures.second,
    () => [
      400,
      {
        code: 'Client specified an invalid argument',
        error: 'Unsupported image format: the image could not be decoded',
      },
    ],
    'messages.5.content.1',
  ],
  // https://openrouter.ai/docs/features/multimodal/images
  [
    'OpenRouter, no pictures',
    'compatible',
    'image_url',
    () => [404, { error: { code: 404, message: 'No endpoints found that support image input' } }],
    'messages.1.content.1',
    'messages.5.content.1',
  ],
  // https://docs.z.ai/api-reference/api-code
  [
    'GLM, a picture',
    'compatible',
    pictures.second,
    () => [400, { error: { code: '1210', message: '图片输入格式/解析错误' } }],
    'messages.5.content.1',
  ],
  // https://www.alibabacloud.com/help/en/model-studio/error-code
  [
    'DashScope, size of a picture',
    'compatible',
    pictures.second,
    () =>
      openai(
        '<400> InternalError.Algo.InvalidParameter: The image length and width do not meet the model restrictions. [height:1 or width:1 must be larger than 10]',
        null,
        'invalid_parameter_error',
      ),
    'messages.5.content.1',
  ],
  // https://github.com/ggml-org/llama.cpp/blob/master/tools/server
  [
    'llama.cpp, a picture',
    'compatible',
    pictures.second,
    () => [
      500,
      { error: { code: 500, message: 'Failed to load image or audio file', type: 'server_error' } },
    ],
    'messages.5.content.1',
  ],
  // https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ImageBlock.html
  [
    'Bedrock, the type of a picture',
    'bedrock',
    pictures.second,
    () =>
      bedrock(
        'The model returned the following errors: messages.2.content.1.tool_result.content.1.image.source.base64: The image was specified using the image/png media type, but does not appear to be a valid png image',
      ),
    'messages.2.content.1.toolResult.content.1',
  ],
]
