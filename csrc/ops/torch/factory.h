// Parameters that operators that make tensors share, as text of their schemas.
#pragma once

#define THUNDER_FACTORY_OPTIONS \
  "*, dtype? dtype=None, device? device=None, layout? layout=None, bool requires_grad=False"
#define THUNDER_LIKE_OPTIONS THUNDER_FACTORY_OPTIONS ", memory_format? memory_format=None"
