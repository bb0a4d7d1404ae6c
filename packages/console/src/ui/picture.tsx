import { firstChars } from '@slipway/shared/text'

/** A picture that came with an event. One of another server is shown as its address and not loaded. */
export function Picture({ url, label }: { readonly url: string; readonly label: string }) {
  if (!/^(?:data:image\/(?:png|jpe?g|gif|webp|avif|bmp);base64,|blob:)/i.test(url))
    return <p className="quiet wrap">[picture at {firstChars(url, 300)}]</p>
  return <img className="picture" src={url} alt={label} loading="lazy" decoding="async" />
}
