import { findPython } from '../python.ts'
import { openLlama } from './llama.ts'
import type { ModelServerKind } from './model-server.ts'
import { findOllama, openOllama } from './ollama.ts'
import { openVllm } from './vllm.ts'

/** The real servers that the same tests run against. */
export const modelServers: readonly ModelServerKind[] = [
  {
    name: 'llama.cpp',
    madeBy: '.ci/python model',
    isInstalled: findPython('model') !== undefined,
    isNightly: false,
    hasTokenIds: true,
    repeatsCalls: true,
    takesAnyModel: true,
    open: openLlama,
  },
  {
    name: 'Ollama',
    madeBy: '.ci/ollama',
    isInstalled: findOllama() !== undefined,
    isNightly: true,
    hasTokenIds: false,
    repeatsCalls: false,
    takesAnyModel: false,
    open: openOllama,
  },
  {
    name: 'vLLM',
    madeBy: '.ci/python vllm',
    isInstalled: findPython('vllm') !== undefined,
    isNightly: true,
    hasTokenIds: true,
    repeatsCalls: false,
    takesAnyModel: false,
    open: openVllm,
  },
]
