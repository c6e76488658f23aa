// Logos of the portal. Pure.

/** Only images that are part of the settings are shown: the page loads nothing from elsewhere. */
export const isLogo = (url: string | undefined): url is string =>
  url !== undefined && /^data:image\/(png|jpeg|webp|svg\+xml);base64,[A-Za-z0-9+/=]+$/.test(url);
