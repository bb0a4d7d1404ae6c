/** Families of models that are trained on patches, by the last part of a model's name. */
const patchModels = /^(?:gpt-(?:4\.1|[5-9])|o[34]\b|codex)/i

/** The tool with which a model changes files best. */
export function preferredFileTool(model: string): 'apply_patch' | 'file_editor' {
  return patchModels.test(model.slice(model.lastIndexOf('/') + 1)) ? 'apply_patch' : 'file_editor'
}
